// An optimizer with its state in host memory, tested on a CPU. The state has its own memory even
// there, so everything is copied as on a GPU.

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/plan/memory_trace.h"
#include "stages/plan/meta_kernels.h"
#include "stages/train/optimizer.h"
#include "tests/support/many_parameters.h"
#include "tests/support/optimizer_rules.h"

namespace stages {
namespace {

constexpr Way kOtherWays[] = {Way::kOffloaded, Way::kOneByOne, Way::kOffloadedOneByOne};

void expect_same(const ManyParameters& one, const ManyParameters& other, const std::string& what) {
  for (std::size_t i = 0; i < one.all.size(); ++i)
    EXPECT_TRUE(one.all[i].equal(other.all[i])) << what << ", " << i;
  const NamedTensors state = one.optimizer.state();
  ASSERT_EQ(state.size(), other.optimizer.state().size()) << what;
  for (const auto& [name, tensor] : other.optimizer.state()) {
    EXPECT_TRUE(state.at(name).cpu().equal(tensor.cpu())) << what << ", " << name;
    EXPECT_EQ(state.at(name).strides(), tensor.strides()) << what << ", " << name;
  }
}

TEST(OffloadedOptimizer, EveryRuleGivesTheSameBits) {
  for (std::size_t rule = 0; rule < std::size(kEveryRule); ++rule) {
    ManyParameters expected(kEveryRule[rule], Way::kOnDevice);
    expected.run(0, 9);
    for (const Way way : kOtherWays) {
      ManyParameters other(kEveryRule[rule], way);
      other.run(0, 9);
      expect_same(
          other, expected,
          "rule " + std::to_string(rule) + ", way " + std::to_string(static_cast<int>(way)));
    }
  }
}

TEST(OffloadedOptimizer, SavedStateContinuesInTheOtherMode) {
  for (std::size_t rule = 0; rule < std::size(kEveryRule); ++rule) {
    ManyParameters whole(kEveryRule[rule], Way::kOnDevice);
    whole.run(0, 9);
    for (const Way way : kOtherWays) {
      for (const bool ends_there : {false, true}) {
        ManyParameters first(kEveryRule[rule], ends_there ? Way::kOnDevice : way),
            rest(kEveryRule[rule], ends_there ? way : Way::kOnDevice);
        first.run(0, 5);
        rest.continue_as(first);
        rest.run(5, 9);
        expect_same(
            rest, whole,
            "rule " + std::to_string(rule) + ", way " + std::to_string(static_cast<int>(way)));
      }
    }
  }
}

TEST(OffloadedOptimizer, LoadedStateIsACopy) {
  ManyParameters one(adamw(0.1), Way::kOffloaded), other(adamw(0.1), Way::kOffloaded);
  one.run(0, 2);
  other.continue_as(one);
  const at::Tensor before = other.optimizer.state().at("matrix.mean").clone();
  one.run(2, 5);
  EXPECT_TRUE(other.optimizer.state().at("matrix.mean").equal(before));
}

TEST(OffloadedOptimizer, StateOfTheWrongFormChangesNothing) {
  ManyParameters training(adamw(0.1), Way::kOffloaded);
  training.run(0, 2);
  NamedTensors wrong = training.optimizer.state();
  const at::Tensor before = wrong.at("matrix.mean").clone();
  wrong.set("image.mean", torch::zeros({1}));
  EXPECT_THROW(training.optimizer.load_state(wrong), std::invalid_argument);
  EXPECT_TRUE(training.optimizer.state().at("matrix.mean").equal(before));
}

/// AdamW on the Meta device, with one parameter of 1000 values and ten of 100.
struct CountedOptimizer {
  explicit CountedOptimizer(bool offloads) : optimizer(adamw(0.1), parameters(), offloads) {}

  NamedTensors parameters() {
    NamedTensors named;
    for (int i = 0; i < 11; ++i) {
      all.push_back(torch::empty({i == 5 ? 1000 : 100}, at::device(at::kMeta)).requires_grad_());
      named.set("p" + std::to_string(i), all.back());
    }
    return named;
  }
  /// Returns the peak bytes of a step beyond parameters, gradients and `live`, and the number of
  /// bytes that remain.
  std::pair<std::int64_t, std::int64_t> step(const MemoryTrace& trace) {
    for (const at::Tensor& one : all) one.mutable_grad() = torch::empty_like(one);
    const std::size_t first = trace.events().size();
    {
      const at::Tensor scratch = optimizer.prepare();
      optimizer.step({}, {}, scratch);
    }
    const auto events = trace.events();
    const auto storages = trace.storages();
    std::int64_t live = 0, most = 0;
    for (std::size_t i = first; i < events.size(); ++i) {
      live += (events[i].is_birth ? 1 : -1) * storages[events[i].storage].bytes;
      most = std::max(most, live);
    }
    return {most, live};
  }

  std::vector<at::Tensor> all;
  Optimizer optimizer;
};

TEST(OffloadedOptimizer, DeviceHoldsStepCountsAndTheLargestStateDuringAStep) {
  register_meta_kernels();
  constexpr std::int64_t kAges = 11 * 4, kState = 2 * 2000 * 4, kLargest = 2 * 1000 * 4,
                         kRounding = 20 * 64;
  const MemoryTrace trace({.device = at::kCUDA, .model = {}});
  CountedOptimizer there(false), away(true);
  EXPECT_EQ(there.step(trace), std::pair(kState + kAges, kState + kAges));
  const auto [most, left] = away.step(trace);
  EXPECT_EQ(left, kAges);
  EXPECT_GE(most, kAges + kLargest);
  EXPECT_LE(most, kAges + kLargest + kRounding);
  EXPECT_GE(away.optimizer.offloaded_bytes(), kState);
  EXPECT_LE(away.optimizer.offloaded_bytes(), kState + kRounding);
  EXPECT_EQ(there.optimizer.offloaded_bytes(), 0);
  EXPECT_EQ(away.optimizer.state_on_device().size(), 11);
  EXPECT_EQ(there.optimizer.state_on_device().size(), 33);
  const auto [again, grown] = away.step(trace);
  EXPECT_LE(again, kLargest + kRounding);
  EXPECT_EQ(grown, 0);
}

TEST(OffloadedOptimizer, SmallParametersAreCopiedTogether) {
  register_meta_kernels();
  MemoryTrace trace({.device = at::kCUDA, .model = {}});
  CountedOptimizer away(true);
  away.step(trace);
  const std::int64_t before = trace.launches();
  away.step(trace);
  const std::int64_t offloaded = trace.launches() - before;
  // The state is offloaded in three pieces: five small parameters, the large one, and the other
  // five small ones.
  CountedOptimizer there(false);
  there.step(trace);
  const std::int64_t begun = trace.launches();
  there.step(trace);
  const std::int64_t of_gradients = 11, at_once = trace.launches() - begun - of_gradients;
  // Each piece needs a view of the whole and of its tensors, two copies, and the same update as
  // for all parameters at once.
  EXPECT_LE(offloaded - of_gradients, 3 * (at_once + 8) + 22);
}

}  // namespace
}  // namespace stages
