#include "stages/plan/block_recording.h"

#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"

namespace stages {
namespace {

TEST(BlockRecording, RecordsAllocationsAndFreesWithTheirOwners) {
  const CountingAllocator counter;
  at::Tensor before = torch::empty({10}, torch::kByte);
  BlockRecording recording(at::kCPU);
  at::Tensor kept = torch::empty({30}, torch::kByte);
  recording.own(kept, Owner::kParameter, "weight");
  recording.own(before, Owner::kParameter, "older");
  const std::size_t begin = recording.place();
  {
    const ScopedPhase phase(StepPhase::kBackward);
    const at::Tensor gone = torch::empty({50}, torch::kByte);
    recording.own(gone, Owner::kGradient, "gradient");
  }
  before.reset();
  const RecordedWork work = recording.since(begin);
  ASSERT_EQ(work.events.size(), 2);
  ASSERT_EQ(work.storages.size(), 1);
  EXPECT_EQ(work.storages[0].bytes, 50);
  EXPECT_EQ(work.storages[0].owner, Owner::kGradient);
  EXPECT_EQ(work.events[0].phase, StepPhase::kBackward);
  const std::vector<TracedStorage> alive = recording.alive();
  ASSERT_EQ(alive.size(), 1);
  EXPECT_EQ(alive[0].name, "weight");
  kept.reset();
  EXPECT_TRUE(recording.alive().empty());
}

}  // namespace
}  // namespace stages
