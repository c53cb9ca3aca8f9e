// work.rs - main > rust_work > rust_inner; main > rust_sort > ...
use std::time::{Duration, Instant};

#[inline(never)]
fn rust_inner(n: u64) -> u64 {
    let mut x = n;
    for _ in 0..n * 100 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    }
    x
}

#[inline(never)]
fn rust_work(n: u64) -> u64 {
    rust_inner(n).wrapping_add(1)
}

#[inline(never)]
fn rust_sort(list: &mut Vec<String>) -> usize {
    list.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    list[0].len()
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut sum = 0u64;
    while Instant::now() < end {
        sum = sum.wrapping_add(rust_work(1000));
        let mut list: Vec<String> = (0..300).map(|i| (i * 7919 % 300).to_string()).collect();
        sum += rust_sort(&mut list) as u64;
        let caught = std::panic::catch_unwind(|| if sum == 0 { panic!("never") });
        sum += caught.is_ok() as u64;
    }
    println!("{}", sum);
}
