#include "stages/plan/step_profile.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "stages/plan/meta_kernels.h"
#include "stages/tensor/module_names.h"
#include "stages/tensor/step_phase.h"
#include "tests/support/traced_tower.h"

namespace stages {
namespace {

const std::vector<std::string> kBlocks = {"model.vision_model.encoder.layers.0",
                                          "model.vision_model.encoder.layers.1",
                                          "model.vision_model.encoder.layers.2"};

struct Profiled {
  StepProfile profile;
  std::int64_t peak;
};

Profiled profiled(TowerTraining training) {
  register_meta_kernels();
  training.layers = 3;
  const MemoryTrace trace({.device = at::kCPU, .threads = 2});
  TowerRun tower(training, at::kMeta);
  const ScopedModuleNames names(*tower.network, "model");
  tower.step();
  const std::size_t second = trace.events().size();
  tower.step();
  return {profile({trace.storages(), trace.events()}, second, kBlocks), peak_of(trace, second)};
}

std::int64_t most(const StepProfile& profile) {
  std::int64_t most = profile.elsewhere;
  for (const BlockProfile& block : profile.blocks) most = std::max(most, block.peak);
  for (const std::int64_t bytes : profile.between) most = std::max(most, bytes);
  return most;
}

TEST(StepProfile, ListsBlocksInExecutionOrder) {
  const StepProfile profile = profiled({}).profile;
  ASSERT_EQ(profile.blocks.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(profile.blocks[i].path, kBlocks[i]);
  EXPECT_EQ(profile.between.size(), 4U);
}

TEST(StepProfile, CoversThePeak) {
  for (const bool recomputes : {false, true}) {
    for (const std::int64_t micro_batch : {0, 3}) {
      const Profiled tower =
          profiled({.micro_batch = micro_batch, .recomputes_blocks = recomputes});
      EXPECT_EQ(most(tower.profile), tower.peak) << recomputes << micro_batch;
    }
  }
}

TEST(StepProfile, EqualBlocksHoldAlmostTheSameMemory) {
  const StepProfile profile = profiled({}).profile;
  const BlockProfile &first = profile.blocks[0], &second = profile.blocks[1],
                     &last = profile.blocks[2];
  EXPECT_NEAR(static_cast<double>(second.held) / static_cast<double>(first.held), 1, 0.2);
  EXPECT_NEAR(second.forward.flops / first.forward.flops, 1, 0.01);
  // The last block computes only keys and values for most tokens.
  EXPECT_LT(last.held, first.held);
  EXPECT_LT(last.forward.flops, first.forward.flops);
}

TEST(StepProfile, BlockActivationsDoNotCountForOtherPhases) {
  const StepProfile kept = profiled({}).profile,
                    recomputed = profiled({.recomputes_blocks = true}).profile;
  ASSERT_GT(kept.blocks[0].held, 2 * recomputed.blocks[0].held);
  EXPECT_LT(kept.elsewhere - recomputed.elsewhere, kept.blocks[2].held / 2);
}

TEST(StepProfile, BlockHoldsTheActivationsOfTheLargestMicroBatch) {
  const auto held = [](TowerTraining training) {
    training.recomputes_blocks = true;
    return profiled(training).profile.blocks[1].held;
  };
  EXPECT_EQ(held({.batch = 8, .micro_batch = 3}),
            held({.batch = 3}));  // micro-batches of 3, 3 and 2
}

TEST(StepProfile, ForwardPassWritesAtLeastWhatItSaves) {
  const BlockProfile block = profiled({}).profile.blocks[0];
  EXPECT_GE(block.forward.traffic, static_cast<double>(block.held));
  EXPECT_GT(block.forward.operations, 0);
}

TEST(StepProfile, ModuleMatchesABlockByWholeNames) {
  register_meta_kernels();
  const MemoryTrace trace({.device = at::kCPU, .threads = 2});
  TowerRun tower({.layers = 1}, at::kMeta);
  const ScopedModuleNames names(*tower.network, "model");
  tower.step();
  EXPECT_EQ(profile({trace.storages(), trace.events()}, 0, {"model.vision_model.encoder.layers.0"})
                .blocks.size(),
            1U);
  EXPECT_EQ(profile({trace.storages(), trace.events()}, 0, {"model.vision_model.encoder.layer"})
                .blocks.size(),
            0U);
}

TEST(StepProfile, KernelScratchIsIncluded) {
  const MemoryTrace trace({.device = at::kCPU, .threads = 2});
  {
    const ScopedPhase phase(StepPhase::kForward);
    const at::Tensor memory = torch::empty({1000}, at::TensorOptions(at::kMeta).dtype(at::kByte)),
                     scratch = torch::empty({5000}, memory.options());
    mark_scratch(scratch);
  }
  EXPECT_THAT(profile({trace.storages(), trace.events()}, 0, {}).between,
              testing::ElementsAre(6000));
}

TEST(StepProfile, OtherPhasesAreIncluded) {
  const MemoryTrace trace({.device = at::kCPU, .threads = 2});
  for (const std::int64_t bytes : {7000, 3000}) {
    const ScopedPhase phase(StepPhase::kOptimizer);
    torch::empty({bytes}, at::TensorOptions(at::kMeta).dtype(at::kByte));
  }
  EXPECT_EQ(profile({trace.storages(), trace.events()}, 0, {}).elsewhere, 7000);
}

TEST(StepProfile, RecomputedBlockHoldsOnlyItsInput) {
  const TowerTraining training{.batch = 8, .image_size = 64, .patch = 16, .width = 64};
  const StepProfile profile = profiled({.batch = 8, .recomputes_blocks = true}).profile;
  const std::int64_t rows =
      1 + (training.image_size / training.patch) * (training.image_size / training.patch);
  EXPECT_EQ(profile.blocks[1].held, training.batch * rows * training.width * 4);
}

}  // namespace
}  // namespace stages
