(* work.ml - ocaml_main > ocaml_work > inner; ocaml_main > ocaml_sort > List.stable_sort > ... *)
let rec inner x n = if n = 0 then x else inner (x * 6364136223846793 + 1442695) (n - 1)
let[@inline never] ocaml_work n = inner n (n * 100) + 1
let[@inline never] ocaml_sort n =
  let list = List.init n (fun i -> string_of_int (i * 7919 mod n)) in
  let sorted = List.sort (fun a b -> compare a b) list in
  1 + String.length (List.hd sorted)
exception Found of int
let[@inline never] ocaml_raise n = 1 + (try raise (Found n) with Found m -> m)
let[@inline never] ocaml_main until =
  let sum = ref 0 in
  while Sys.time () < until do
    sum := !sum + ocaml_work 1000 + ocaml_sort 300 + ocaml_raise 3
  done;
  !sum
let () = Printf.printf "%d\n" (ocaml_main (float_of_string Sys.argv.(1)))
