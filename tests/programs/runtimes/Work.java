/* Work PART SECONDS - recursion, interfaces, lambdas, collections, strings, exceptions; PART: one of these, or all.
 * inner() does the work; north() calls northLeaf(), south() southLeaf(), and both nothing else, so the leaf of these
 * samples is known. */
import java.util.*;
import java.util.function.*;

public class Work {
	static long sink;
	interface Shape { long area(long x); }
	static class Square implements Shape { public long area(long x) { return inner(x) * 3; } }
	static class Circle implements Shape { public long area(long x) { return inner(x + 1) * 5; } }
	static class Line implements Shape { public long area(long x) { return inner(x + 2); } }
	static long inner(long x) {
		long y = x;
		for (int i = 0; i < 60; i++)
			y = y * 6364136223846793005L + 1442695040888963407L ^ y >>> 7;
		return y;
	}
	static long northLeaf(long x) {
		long y = x;
		for (int i = 0; i < 2400000; i++)
			y = y * 6364136223846793005L + 1442695040888963407L ^ y >>> 7;
		return y;
	}
	static long southLeaf(long x) {
		long y = x;
		for (int i = 0; i < 2400000; i++)
			y = y * 3935559000370003845L + 2691343689449507681L ^ y >>> 9;
		return y;
	}
	static long north(long x) { return northLeaf(x) + 1; }
	static long south(long x) { return southLeaf(x) + 1; }
	static long recurse(int depth, long x) {
		return depth == 0 ? inner(x) : recurse(depth - 1, x + depth) + 1;
	}
	static long shapes(long x) {
		Shape[] all = {new Square(), new Circle(), new Line()};
		long sum = 0;
		for (int i = 0; i < 9; i++)
			sum += all[i % 3].area(x + i);
		return sum;
	}
	static long lambdas(long x) {
		LongUnaryOperator f = v -> inner(v) + 1, g = v -> inner(v) ^ 7;
		return f.andThen(g).applyAsLong(x);
	}
	static long collections(long x) {
		TreeMap<Long, Long> map = new TreeMap<>();
		for (long i = 0; i < 20; i++)
			map.put(inner(x + i), i);
		List<Long> list = new ArrayList<>(map.keySet());
		Collections.sort(list, Comparator.reverseOrder());
		return list.stream().mapToLong(v -> v * 3).filter(v -> (v & 1) == 0).sum();
	}
	static long strings(long x) {
		StringBuilder b = new StringBuilder();
		for (int i = 0; i < 10; i++)
			b.append(x + i).append(',');
		return b.toString().hashCode() + Arrays.hashCode(b.toString().split(","));
	}
	static long exceptions(long x) {
		try {
			if ((x & 1) == 0) throw new IllegalStateException("x" + x);
			return inner(x);
		} catch (IllegalStateException e) {
			return e.getMessage().length();
		}
	}
	public static void main(String[] args) throws Exception {
		long end = System.nanoTime() + Long.parseLong(args[1]) * 1000000000L, x = 1;
		// On a busy machine there is little CPU time in a second.
		for (int round = 0; round < 20 || System.nanoTime() < end; round++) {
			if (args[0].equals("all"))
				sink += north(x) + south(x);
			for (int i = 0; i < 50; i++) {
				x++;
				switch (args[0]) {
				case "recurse": sink += recurse(40, x); break;
				case "shapes": sink += shapes(x); break;
				case "lambdas": sink += lambdas(x); break;
				case "collections": sink += collections(x); break;
				case "strings": sink += strings(x); break;
				case "exceptions": sink += exceptions(x); break;
				default:
					sink += recurse(20, x) + shapes(x) + lambdas(x) + collections(x) + strings(x) + exceptions(x);
				}
			}
		}
		System.out.println(sink);
		Thread.sleep(300); // code is read while its process lives
	}
}
