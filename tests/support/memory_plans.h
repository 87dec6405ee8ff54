#pragma once

#include "runner/shared/stage/memory_plan.h"

/// A plan of the node "train" with every kind of entry: it needs 1.25 GiB of 8 GiB.
inline runner::MemoryPlan memory_plan() {
  constexpr std::int64_t kMiB = 1 << 20;
  runner::MemoryPlan plan;
  plan.node = "train";
  plan.device = "cpu";
  plan.threads = 2;
  plan.live = 1100 * kMiB;
  plan.reserved = 1200 * kMiB;
  plan.needed = 1280 * kMiB;
  plan.budget = 8192 * kMiB;
  plan.budget_from = "memory.budget";
  plan.peak_phase = "backward";
  plan.peak_operation = "aten::convolution_backward";
  plan.owners = {
      {"saved_activation", 900 * kMiB}, {"parameter", 100 * kMiB}, {"gradient", 100 * kMiB}};
  plan.terms = {{"kernel temporaries", 80 * kMiB, "2 threads"}};
  plan.terms_version = "2.11.0-1";
  plan.largest = {{"saved_activation",
                   "layer1.0.conv1",
                   "aten::convolution",
                   {16, 64, 112, 112},
                   "float32",
                   49 * kMiB},
                  {"parameter", "head.weight", "", {1000, 512}, "float32", 2 * kMiB}};
  plan.curve = {100 * kMiB,  400 * kMiB, 800 * kMiB, 1000 * kMiB,
                1100 * kMiB, 600 * kMiB, 300 * kMiB, 100 * kMiB};
  plan.phases = {{"forward", 0}, {"backward", 4}};
  plan.options = {
      {"memory.empty_cache_every", "50", 0, "it returns unused blocks, and lowers no peak"}};
  plan.alternatives = {{{}, "bit", 1280 * kMiB, 1},
                       {{"memory.micro_batch=8"}, "exact", 700 * kMiB, 1, "", 1.9}};
  plan.flops = 2.28e12;
  plan.step = {{"micro_batch", 16}, {"two_pass", false}, {"precision", "fp32"}};
  return plan;
}

/// Returns memory_plan() with a budget of 1 GiB. It does not fit, but a smaller micro-batch does.
inline runner::MemoryPlan plan_that_does_not_fit() {
  runner::MemoryPlan plan = memory_plan();
  plan.budget = 1 << 30;
  return plan;
}
