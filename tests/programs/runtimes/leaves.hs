{-# LANGUAGE BangPatterns #-}
-- leaves.hs SECONDS - north calls northLeaf, south calls southLeaf, and both of them nothing else: the leaf of each sample is known.
-- Top-level names are exported, as others have no symbols.
module Main where

import System.CPUTime
import System.Environment

northLeaf :: Int -> Int -> Int
northLeaf !x 0 = x
northLeaf !x n = northLeaf (x * 6364136223846793005 + 1442695040888963407) (n - 1)
{-# NOINLINE northLeaf #-}

southLeaf :: Int -> Int -> Int
southLeaf !x 0 = x
southLeaf !x n = southLeaf (x * 3935559000370003845 + 2691343689449507681) (n - 1)
{-# NOINLINE southLeaf #-}

north :: Int -> Int
north x = northLeaf x 100000 + 1
{-# NOINLINE north #-}

south :: Int -> Int
south x = southLeaf x 100000 + 1
{-# NOINLINE south #-}

-- Lists: allocation and collections of garbage.
grown :: Int -> [Int] -> [Int]
grown 0 list = list
grown !n list = grown (n - 1) (n : list)
{-# NOINLINE grown #-}

total :: Int -> [Int] -> Int
total !sum [] = sum
total !sum (x : list) = total (sum * 3 + x) list
{-# NOINLINE total #-}

loop :: Integer -> Int -> IO Int
loop end !x = do
  now <- getCPUTime
  if now >= end then return x else loop end (x + north x + south x + total 0 (grown 5000 [x]))

main :: IO ()
main = do
  seconds <- fmap (read . head) getArgs :: IO Double
  end <- loop (round (seconds * 1e12)) 1
  print (odd end)
