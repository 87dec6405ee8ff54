#include "stages/train/memory_log.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "tests/support/recording_context.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

constexpr std::int64_t kMiB = 1 << 20;

std::vector<std::int64_t> no_owners(std::int64_t live) { return {0, 0, 0, 0, live}; }

TEST(MemoryLog, ReportsAllocatedPeakAndBudget) {
  CountingAllocator counter;
  counter.set_limit(512 * kMiB);
  RecordingContext context;
  const at::Tensor weights = torch::empty({64 * kMiB}, torch::kByte);
  MemoryLog log(context, {c10::kCPU, 2, 4, {}}, no_owners);
  log.begin();
  for (int step = 1; step <= 4; ++step) {
    torch::empty({step * 64 * kMiB}, torch::kByte);
    log.end_step(step);
  }
  log.end_epoch(1, 4);
  EXPECT_THROW(torch::empty({512 * kMiB}, torch::kByte), c10::OutOfMemoryError);
  log.end(4);
  EXPECT_THAT(
      context.said,
      ElementsAre(
          MatchesRegex(
              "memory at the start: allocated 0.062 GiB, resident [0-9.]+ GiB, peak 0.062 GiB, "
              "budget 0.500 GiB"),
          MatchesRegex(
              "memory after epoch 1: allocated 0.062 GiB, resident [0-9.]+ GiB, peak 0.312 GiB, "
              "budget 0.500 GiB"),
          MatchesRegex(
              "memory at the end: allocated 0.062 GiB, resident [0-9.]+ GiB, peak 0.312 GiB, "
              "budget 0.500 GiB, 1 retried or refused")));
  EXPECT_THAT(context.steps("memory/peak"), ElementsAre(1, 3, 4));
  EXPECT_THAT(context.values("memory/peak"), ElementsAre(128.0 * kMiB, 256.0 * kMiB, 320.0 * kMiB));
  EXPECT_THAT(context.values("memory/allocated"), Each(64.0 * kMiB));
  EXPECT_THAT(context.values("memory/retries"), ElementsAre(0, 0, 0));
  EXPECT_EQ(context.values("memory/reserved").size(), 3);
}

TEST(MemoryLog, RepeatedLineIsLoggedAsADetail) {
  const CountingAllocator counter;
  RecordingContext context;
  const at::Tensor weights = torch::empty({64 * kMiB}, torch::kByte);
  MemoryLog log(context, {c10::kCPU, 1, 3, {}}, no_owners);
  log.begin();
  at::Tensor kept;
  for (int epoch = 1; epoch <= 3; ++epoch) {
    if (epoch == 3) kept = torch::empty({64 * kMiB}, torch::kByte);
    torch::empty({128 * kMiB}, torch::kByte);
    log.end_epoch(epoch, epoch);
  }
  EXPECT_THAT(
      context.said,
      ElementsAre(MatchesRegex("memory at the start: .*"), MatchesRegex("memory after epoch 1: .*"),
                  MatchesRegex("memory after epoch 3: allocated 0.125 GiB.*")));
  EXPECT_THAT(context.details,
              ElementsAre(MatchesRegex("memory after epoch 2: allocated 0.062 GiB.*")));
}

TEST(MemoryLog, PeakIsComparedWithThePlan) {
  const CountingAllocator counter;
  RecordingContext context;
  MemoryLog log(context, {c10::kCPU, 1, 1, {}, 128 * kMiB}, no_owners);
  log.begin();
  torch::empty({96 * kMiB}, torch::kByte);
  log.end_step(1);
  log.end_epoch(1, 1);
  log.end(1);
  EXPECT_EQ(context.said.back(),
            "memory peak: 96.0 MiB in tensors, 75.0% of the 128.0 MiB planned");
  EXPECT_THAT(context.values("memory/peak_by_plan"), ElementsAre(0.75));
}

TEST(MemoryLog, IsSilentWithoutACounter) {
  RecordingContext context;
  MemoryLog log(context, {c10::kCPU, 1, 1, {}}, no_owners);
  log.begin();
  log.end_step(1);
  log.end_epoch(1, 1);
  log.end(4);
  EXPECT_THAT(context.said, IsEmpty());
  EXPECT_THAT(context.metrics, IsEmpty());
}

TEST(MemoryLog, CacheIsClearedAtTheIntervalOfEachUnit) {
  const CountingAllocator counter;
  RecordingContext context;
  std::vector<std::string> cleared;
  std::string at;
  MemoryLog log(context,
                {c10::kCPU,
                 100,
                 100,
                 {.micro_batches = 3, .steps = 4, .epochs = 2},
                 {},
                 [&] { cleared.push_back(at); }},
                no_owners);
  for (int epoch = 1, step = 1; epoch <= 2; ++epoch) {
    for (int i = 0; i < 3; ++i, ++step) {
      for (int part = 1; part <= 2; ++part) {
        at = "part " + std::to_string(part) + " of " + std::to_string(step);
        log.end_micro_batch();
      }
      at = "step " + std::to_string(step);
      log.end_step(step);
    }
    at = "epoch " + std::to_string(epoch);
    log.end_epoch(epoch, step - 1);
  }
  EXPECT_THAT(cleared, ElementsAre("part 1 of 2", "part 2 of 3", "step 4", "part 1 of 5",
                                   "part 2 of 6", "epoch 2"));
  EXPECT_THAT(context.said,
              ElementsAre(testing::EndsWith(", cache cleared 2 times"),
                          testing::EndsWith(", cache cleared 3 times"),
                          testing::AllOf(testing::StartsWith("memory after clearing: "),
                                         testing::EndsWith(", cache cleared 1 times"))));
}

TEST(MemoryLog, CpuCacheIsItsMemoryPool) {
  const CpuPool pool;
  const CountingAllocator counter;
  RecordingContext context;
  MemoryLog log(context, {c10::kCPU, 1, 1, {.epochs = 1}}, no_owners);
  const at::Tensor kept = torch::empty({64 * kMiB}, torch::kByte);
  torch::empty({128 * kMiB}, torch::kByte);
  log.end_epoch(1, 1);
  EXPECT_THAT(
      context.said,
      ElementsAre(
          testing::StartsWith("memory after epoch 1: allocated 0.062 GiB, reserved 0.188 GiB, "),
          testing::StartsWith("memory after clearing: allocated 0.062 GiB, reserved 0.063 GiB, ")));
}

TEST(MemoryLog, CpuWithoutAPoolHasNoCache) {
  const CountingAllocator counter;
  RecordingContext context;
  MemoryLog log(context, {c10::kCPU, 1, 1, {.epochs = 1}}, no_owners);
  log.end_epoch(1, 1);
  EXPECT_THAT(context.said, ElementsAre(Not(HasSubstr("clear"))));
}

/// Keeps memory for every batch, in places that a test chooses.
class LeakingStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    NamedTensors encoded = TinyStep::encode(network, part);
    if (keeps) kept.push_back(torch::ones({1000}));
    if (buffer) {
      const at::Tensor old = network.named_buffers().contains("history")
                                 ? network.named_buffers()["history"]
                                 : torch::zeros(0);
      if (old.numel() == 0) network.register_buffer("history", torch::ones(10));
      else old.set_data(torch::cat({old, torch::ones(10)}));
    }
    return encoded;
  }
  bool keeps = false, buffer = false;
  mutable std::vector<at::Tensor> kept;
};

std::vector<std::string> growth_said(bool keeps, bool buffer) {
  CountingAllocator counter;
  TinyTraining training;
  LeakingStep step;
  step.keeps = keeps;
  step.buffer = buffer;
  training.options.keep = Keep::kLast;
  train(step, *training.network, {training.train_data, training.validation}, training.options,
        training.policy, training.context);
  EXPECT_EQ(training.context.values("memory/live/parameter").size(), 4);
  EXPECT_EQ(training.context.values("memory/slope/parameter"), std::vector<double>(3, 0));
  std::vector<std::string> lines;
  for (const std::string& line : training.context.said) {
    if (line.find("grows") != line.npos) lines.push_back(line);
  }
  return lines;
}

TEST(MemoryLog, TrainingThatKeepsNothingIsNotReportedAsGrowing) {
  EXPECT_THAT(growth_said(false, false), IsEmpty());
}

TEST(MemoryLog, LeakInATrainingStepIsAttributedToOther) {
  // An epoch has four training batches and two validation batches.
  EXPECT_THAT(growth_said(true, false),
              ElementsAre("memory of owner 'other' grows by 23 KiB per epoch: something keeps "
                          "memory that it should release",
                          "memory of owner 'other' grows by 23 KiB per epoch: something keeps "
                          "memory that it should release"));
}

TEST(MemoryLog, LeakIntoABufferReportsTheBuffer) {
  EXPECT_THAT(growth_said(false, true),
              Contains("memory of owner 'buffer' grows by 240 B per epoch: something keeps memory "
                       "that it should release"));
}

struct Net : torch::nn::Module {
  Net() {
    weight = register_parameter("weight", torch::ones({3}));
    tied = register_parameter("tied", weight.view({3, 1}).detach());
    mean = register_buffer("mean", torch::zeros({5}));
  }
  at::Tensor weight, tied, mean;
};

TEST(OwnedTensors, EachStorageHasOneOwner) {
  Net net;
  (net.weight * 2).sum().backward();
  const NamedTensors state = {{"weight.momentum", torch::zeros({3})}};
  std::vector<std::string> found;
  const auto owned = owned_tensors(net, state);
  for (const OwnedTensor& one : owned) found.push_back(one.owner + " " + one.name);
  EXPECT_THAT(found, testing::ElementsAre("parameter weight", "buffer mean", "gradient weight",
                                          "optimizer_state weight.momentum"));
  EXPECT_THAT(bytes_by_owner(owned, 100), testing::ElementsAre(12, 12, 12, 20, 44));
}

TEST(OwnedTensors, MayBeOlderThanTheCounter) {
  EXPECT_THAT(bytes_by_owner(owned_tensors(Net(), {}), 10), testing::ElementsAre(12, 0, 0, 20, 0));
}

}  // namespace
}  // namespace stages
