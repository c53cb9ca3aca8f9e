{-# LANGUAGE BangPatterns #-}
-- callers.hs SECONDS - the calls are known: northLeaf is called by northMiddle, which north calls; southLeaf by southMiddle, which south
-- calls; depth calls itself seven times and then deepLeaf.  No call is a tail call, as each caller adds to the result.
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

deepLeaf :: Int -> Int -> Int
deepLeaf !x 0 = x
deepLeaf !x n = deepLeaf (x * 2862933555777941757 + 3037000493) (n - 1)
{-# NOINLINE deepLeaf #-}

northMiddle :: Int -> Int
northMiddle x = northLeaf x 30000 + 3
{-# NOINLINE northMiddle #-}

southMiddle :: Int -> Int
southMiddle x = southLeaf x 30000 + 5
{-# NOINLINE southMiddle #-}

north :: Int -> Int
north x = northMiddle (x + 1) + 7
{-# NOINLINE north #-}

south :: Int -> Int
south x = southMiddle (x + 2) + 11
{-# NOINLINE south #-}

depth :: Int -> Int -> Int
depth 0 x = deepLeaf x 30000 + 13
depth n x = depth (n - 1) (x + 1) + 17
{-# NOINLINE depth #-}

loop :: Integer -> Int -> IO Int
loop end !x = do
  now <- getCPUTime
  if now >= end then return x else loop end (x + north x + south x + depth 6 x)

main :: IO ()
main = do
  seconds <- fmap (read . head) getArgs :: IO Double
  end <- loop (round (seconds * 1e12)) 1
  print (odd end)
