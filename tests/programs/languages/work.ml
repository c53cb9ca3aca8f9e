(* work.ml - ocaml_main > ocaml_work > inner; ocaml_main > ocaml_sort > List.stable_sort > ... *)
let rec inner x n = if n = 0 then x else inner (x * 6364136223846793 + 1442695) (n - 1)
let[@inline never] ocaml_work n = inner n (n * 100) + 1
let[@inline never] ocaml_sort n =
  let list = List.init n (fun i -> string_of_int (i * 7919 mod n)) in
  let sorted = List.sort (fun a b -> compare a b) list in
  1 + String.length (List.hd sorted)
exception Found of int
let[@inline never] ocaml_raise n = 1 + (try raise (Found n) with Found m -> m)
(* raised in one function and handled in another; by the library; by an index; in a try within a try *)
let[@inline never] rec ocaml_throw n = if n = 0 then raise Not_found else 1 + ocaml_throw (n - 1)
let[@inline never] ocaml_across n = try ocaml_throw n with Not_found -> 2
let[@inline never] ocaml_lookup table key = try Hashtbl.find table key with Not_found -> 3
let[@inline never] ocaml_bounds a i = try a.(i) with Invalid_argument _ -> 4
let[@inline never] ocaml_nested n = try (try raise (Found n) with Not_found -> 1) with Found m -> m
let[@inline never] ocaml_exceptions until =
  let sum = ref 0 and table = Hashtbl.create 10 and a = Array.make 3 1 in
  while Sys.time () < until do
    for i = 1 to 1000 do
      sum := !sum + ocaml_raise i + ocaml_across 5 + ocaml_lookup table i + ocaml_nested i;
      if i land 63 = 0 then sum := !sum + ocaml_bounds a i
    done
  done;
  !sum
let[@inline never] ocaml_main until =
  let sum = ref 0 in
  while Sys.time () < until do
    sum := !sum + ocaml_work 1000 + ocaml_sort 300 + ocaml_raise 3
  done;
  !sum
let () =
  let run = if Array.length Sys.argv > 2 then ocaml_exceptions else ocaml_main in
  Printf.printf "%d\n" (run (float_of_string Sys.argv.(1)))
