// The order of copies and steps on a GPU if batches are copied ahead
// (stages/train/batch_buffers.h).

#include <vector>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/train/batch_buffers.h"
#include "stages/train/plan_training.h"
#include "stages/train/trainer.h"
#include "tests/support/noise_images.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/counts.h"
#include "tests/support/stand_in/faults.h"
#include "tests/support/test_device.h"
#include "tests/support/tiny_training.h"

namespace stand_in {
namespace {

using stages::Batch;
using stages::BatchBuffers;

const at::Device kCard(test_device());
constexpr std::int64_t kRows = 4, kColumns = 100;

/// A batch of pinned rows that are full of `value`.
Batch batch_of(std::int64_t value, std::int64_t rows = kRows) {
  const auto pinned = [](at::ScalarType type) { return at::dtype(type).pinned_memory(true); };
  return Batch({{"image", at::full({rows, kColumns}, value, pinned(at::kFloat))},
                {"label", at::full({rows}, value, pinned(at::kLong))}},
               rows);
}

TEST(CopiedAhead, GpuOrdersCopiesAndStepsWithoutTheHost) {
  BatchBuffers buffers(batch_of(0), kCard);
  constexpr int kSteps = 6, kInputs = 2;
  const Counts before = counts();
  std::vector<at::Tensor> sums;
  for (int step = 0; step < kSteps; ++step) {
    const Batch filled = buffers.fill(batch_of(step));
    sums.push_back(filled["image"].sum() + filled["label"].sum());
  }
  const Counts here = counts() - before;
  EXPECT_EQ(here.waits, 0);
  EXPECT_EQ(here.pageable_copies, 0);
  EXPECT_EQ(here.copies_ahead, (kSteps - 1) * kInputs) << "all except those of the first batch";
  for (int step = 0; step < kSteps; ++step)
    EXPECT_EQ(sums[static_cast<std::size_t>(step)].item<double>(),
              static_cast<double>(step * kRows * (kColumns + 1)));
}

TEST(CopiedAhead, FirstCopyWaitsForTheEarlierUserOfItsMemory) {
  constexpr std::int64_t kMany = 1 << 20;  // large enough that the allocator reuses the block for
                                           // the buffer
  const auto many = [](at::TensorOptions options) { return at::ones({1, kMany}, options); };
  many(at::device(kCard)).add_(1);
  BatchBuffers buffers(Batch({{"image", many({})}}, 1), kCard);
  const Batch filled = buffers.fill(Batch({{"image", many({})}}, 1));
  EXPECT_EQ(filled["image"].sum().item<float>(), static_cast<float>(kMany));
}

TEST(CopiedAhead, PinnedBatchThatChangesTooEarlyIsDetected) {
  BatchBuffers buffers(batch_of(0), kCard);
  const Batch given = batch_of(1);
  buffers.fill(given);
  given["image"].fill_(2);
  c10::impl::VirtualGuardImpl(at::kCUDA).synchronizeDevice(kCard.index());
  EXPECT_THAT(take_faults(),
              testing::ElementsAre(testing::HasSubstr("the host changed pinned memory")));
}

/// Learns from two values of each image, so that batches need most of the memory.
struct FewNumbers final : TinyStep {
  stages::NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return model.forward(network, {{"image", part["image"].flatten(1).narrow(1, 0, 2)}});
  }
};

/// A training run on images of one size, planned and counted.
struct Counted {
  explicit Counted(std::int64_t image_size) {
    const auto data = std::make_shared<NoiseImages>(3 * kBatchOfImages, image_size);
    const stages::DatasetDescription description = data->describe();
    const FewNumbers step;
    stages::TrainerOptions options = stages::tiny_options();
    options.epochs = 1;
    options.batch_size = kBatchOfImages;
    PlanningContext planning;
    planning.facts.device = kCard.str();
    planned = stages::plan_training({.step = step,
                                     .model = step.model,
                                     .data = description,
                                     .network_data = description,
                                     .loader = data->loader(),
                                     .options = options,
                                     .policy = {}},
                                    planning)
                  .plan.live;
    RecordingContext running;
    running.facts.device = kCard.str();
    const auto network = step.model.build(description, 1);
    const auto allocated = [] {
      return card_allocator().getDeviceStats(kCard.index()).allocated_bytes[0];
    };
    card_allocator().resetPeakStats(kCard.index());
    const std::int64_t before = allocated().current;
    stages::train(step, *network, {data, nullptr}, options, {}, running);
    counted = allocated().peak - before;
  }
  static constexpr std::int64_t kBatchOfImages = 16;
  std::int64_t planned = 0, counted = 0;
};

TEST(CopiedAhead, PlanCountsBothBuffers) {
  constexpr std::int64_t kSmall = 8, kLarge = 64;
  const Counted small(kSmall), large(kLarge);
  const std::int64_t more = Counted::kBatchOfImages * 3 * (kLarge * kLarge - kSmall * kSmall) *
                            static_cast<std::int64_t>(sizeof(float));
  EXPECT_EQ(large.counted - small.counted, 2 * more);
  EXPECT_EQ(large.planned - small.planned, 2 * more);
}

}  // namespace
}  // namespace stand_in
