#pragma once

#include <string>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/weights/weights.h"
#include "tests/support/refused.h"

/// Trains with and without CUDA graphs, in more than three whole batches, and expects the same
/// bits. On a CPU, expects graphs to be refused. `Training` has a `policy`, a `context` and a run()
/// that returns a checkpoint.
template <typename Training>
void expect_same_bits_with_graphs(const std::string& options) {
  SCOPED_TRACE(options);
  Training replayed, computed;
  replayed.policy->pointer = "/memory";
  replayed.policy->cuda_graphs = true;
  if (replayed.context.node().device == "cpu") {
    EXPECT_REFUSED(replayed.run(options), kOptionConflict, "/memory/cuda_graphs", "the CPU");
    return;
  }
  const stages::NamedTensors one = stages::weights(*replayed.run(options)->opened()),
                             other = stages::weights(*computed.run(options)->opened());
  for (const auto& [name, weight] : one) EXPECT_TRUE(weight.equal(other.at(name))) << name;
  EXPECT_THAT(replayed.context.said,
              testing::Contains(testing::HasSubstr("recorded a CUDA graph")));
}
