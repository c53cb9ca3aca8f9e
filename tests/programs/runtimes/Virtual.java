/* Virtual SECONDS - virtual threads that sleep, and then return to frames that the VM has kept in its heap meanwhile; middle()
 * calls leaf(), and nothing else. */
import java.util.concurrent.*;

public class Virtual {
	static volatile long sink;
	static long leaf(long x) {
		for (int i = 0; i < 2000000; i++)
			x = x * 6364136223846793005L + 1442695040888963407L ^ x >>> 7;
		return x;
	}
	static long middle(long x) { return leaf(x) + 1; }
	static long deep(int depth, long x) { return depth == 0 ? middle(x) : deep(depth - 1, x) + 1; }
	public static void main(String[] args) throws Exception {
		long end = System.nanoTime() + Long.parseLong(args[0]) * 1000000000L;
		for (int round = 0; round < 5 || System.nanoTime() < end; round++)
			try (var threads = Executors.newVirtualThreadPerTaskExecutor()) {
				for (int i = 0; i < 8; i++)
					threads.submit(() -> {
						for (int k = 0; k < 5; k++) {
							sink += deep(10, k);
							try {
								Thread.sleep(1);
							} catch (InterruptedException e) {
								sink++;
							}
						}
					});
			}
		System.out.println(sink);
		Thread.sleep(300); // code is read while its process lives
	}
}
