#pragma once

#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "stages/artifact/model.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/train/sharded_network.h"

inline stages::MemoryPolicy sharded_policy() {
  stages::MemoryPolicy policy;
  policy.sharding = stages::Sharding::kParameters;
  return policy;
}

/// The network that a rank creates with sharded parameters, or its outline.
inline std::shared_ptr<torch::nn::Module> network_of_rank(const stages::Model& model,
                                                          const stages::DatasetDescription& data,
                                                          int rank, int ranks,
                                                          bool is_outline = false) {
  return stages::built_for_rank(
      model, data, stages::TrainerOptions(), sharded_policy(), {.rank = rank, .size = ranks},
      [&] { return is_outline ? model.outline(data) : model.build(data, /*seed=*/3); });
}

/// True if a weight belongs to a block of the network.
inline bool is_in_block(const torch::nn::Module& network, const std::string& weight) {
  for (const auto& item : network.named_modules("", /*include_self=*/false)) {
    const auto* const block = dynamic_cast<const stages::RecomputableModule*>(item.value().get());
    if (block && block->is_block() && weight.starts_with(item.key() + ".")) return true;
  }
  return false;
}

/// Checks the ranks' networks against the whole one: each has the same values where it has any, and
/// every weight of a block is on one rank only.
inline void expect_parts_of_whole(const stages::Model& model,
                                  const stages::DatasetDescription& data, int ranks) {
  ASSERT_TRUE(model.builds_in_shards());
  const auto whole = model.build(data, /*seed=*/3);
  const auto expected = whole->named_parameters();
  std::map<std::string, int> keepers;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto part = network_of_rank(model, data, rank, ranks),
               outline = network_of_rank(model, data, rank, ranks, /*is_outline=*/true);
    const auto planned = outline->named_parameters();
    for (const auto& item : part->named_parameters()) {
      const at::Tensor& of_whole = expected[item.key()];
      EXPECT_EQ(item.value().requires_grad(), of_whole.requires_grad()) << item.key();
      EXPECT_EQ(item.value().sizes(), of_whole.sizes()) << item.key();
      EXPECT_EQ(stages::has_memory(item.value()), stages::has_memory(planned[item.key()]))
          << item.key();
      if (!stages::has_memory(item.value())) continue;
      ++keepers[item.key()];
      EXPECT_TRUE(item.value().equal(of_whole)) << item.key();
    }
    const auto buffers = whole->named_buffers();
    for (const auto& item : part->named_buffers())
      EXPECT_TRUE(item.value().equal(buffers[item.key()])) << item.key();
  }
  ASSERT_EQ(keepers.size(), expected.size());
  bool has_blocks = false;
  for (const auto& [name, count] : keepers) {
    const bool is_sharded = is_in_block(*whole, name);
    EXPECT_EQ(count, is_sharded ? 1 : ranks) << name;
    has_blocks |= is_sharded;
  }
  EXPECT_TRUE(has_blocks);
}
