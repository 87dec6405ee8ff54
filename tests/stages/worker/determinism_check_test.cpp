#include "stages/worker/determinism_check.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/train/classification_loss.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_step.h"
#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using testing::ElementsAre;
using Json = nlohmann::ordered_json;

/// The identity function, which adds `by` to the gradient in its backward pass.
struct Disturbed : torch::autograd::Function<Disturbed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            double by) {
    context->saved_data["by"] = by;
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] + context->saved_data["by"].toDouble(), at::Tensor()};
  }
};

/// Not deterministic: from some step on, its gradient depends on how often it was used in this
/// process.
class UnsteadyStep final : public TinyStep {
 public:
  explicit UnsteadyStep(int from) : from_(from) {}
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    static int uses = 0;
    const double by = ++steps_ >= from_ ? 0.125 * ++uses : 0.0;
    return {{"logits", Disturbed::apply(TinyStep::encode(network, part).at("logits"), by)}};
  }

 private:
  const int from_;
  mutable int steps_ = 0;
};

/// The checked tensors of a training run, by name.
class Listing final : public StepObserver {
 public:
  std::int64_t steps() const override { return 2; }
  void see(const Place& place, std::string_view name, const at::Tensor&) override {
    seen.push_back(std::string(place.phase) + std::to_string(place.step) + " " + std::string(name));
  }
  std::vector<std::string> seen;
};

/// Passes on the tensors under a node name that is the same in every run; the folders of a test
/// differ.
class AsTrain final : public StepObserver {
 public:
  explicit AsTrain(StepObserver& observer) : observer_(observer) {}
  std::int64_t steps() const override { return observer_.steps(); }
  void see(const Place& place, std::string_view name, const at::Tensor& tensor) override {
    observer_.see({"train", place.step, place.phase}, name, tensor);
  }

 private:
  StepObserver& observer_;
};

class DeterminismCheckTest : public testing::Test {
 protected:
  /// Trains in one of two runs; returns the result of its check.
  Json run(const TrainingStep& step, bool compare, std::int64_t steps = 3,
           std::int64_t limit = DeterminismCheck::kLimit) {
    const auto check = compare ? DeterminismCheck::comparing(folder_ / "tensors", steps)
                               : DeterminismCheck::writing(folder_ / "tensors", steps, limit);
    AsTrain observer(*check);
    train(step, &observer, 0);
    return check->finish();
  }
  at::Tensor train(const TrainingStep& step, StepObserver* observer, std::int64_t workers) {
    RecordingContext context;
    context.facts.smoke = observer;
    context.facts.observer = observer;
    auto data = std::make_shared<TinyDataset>(30);
    data->skipped = {4, 17};
    data->options.workers = workers;
    TrainerOptions options = tiny_options();
    options.epochs = 2;
    const auto network = TinyModel().build(data->describe(), 7);
    stages::train(step, *network, {data, nullptr}, options, MemoryPolicy(), context);
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : weights(*network))
      all.push_back(tensor.detach().flatten().clone());
    return torch::cat(all);
  }

  TemporaryFolder folder_;
};

TEST_F(DeterminismCheckTest, EqualStepsGiveEqualTensors) {
  // Each step has 2 tensors of a batch, the loss and its term, 4 gradients, and 4 weights after and
  // before it.
  EXPECT_EQ(run(TinyStep(), false).dump(), R"({"steps":3,"tensors":16,"difference":null})");
  EXPECT_EQ(run(TinyStep(), true).dump(), R"({"steps":3,"tensors":16,"difference":null})");
}

TEST_F(DeterminismCheckTest, FirstDifferingTensorIsReported) {
  run(UnsteadyStep(2), false);
  const Json difference = run(UnsteadyStep(2), true)["difference"];
  EXPECT_EQ(difference["node"], "train");
  EXPECT_EQ(difference["step"], 2);
  EXPECT_EQ(difference["phase"], "gradient");
  EXPECT_EQ(difference["tensor"], "0.weight");
  EXPECT_GT(difference["largest"].get<double>(), 0.0);
}

TEST_F(DeterminismCheckTest, TensorsOfAStepAreListedInOrder) {
  Listing listing;
  train(TinyStep(), &listing, 0);
  ASSERT_EQ(listing.seen.size(), 4 + 2 * 12u);
  EXPECT_EQ(listing.seen[0], "start0 0.weight");
  EXPECT_THAT((std::vector(listing.seen.begin() + 4, listing.seen.begin() + 16)),
              ElementsAre("batch1 image", "batch1 label", "loss1 loss", "loss1 cross_entropy",
                          "gradient1 0.weight", "gradient1 0.bias", "gradient1 2.weight",
                          "gradient1 2.bias", "weights1 0.weight", "weights1 0.bias",
                          "weights1 2.weight", "weights1 2.bias"));
  EXPECT_EQ(listing.seen[16], "batch2 image");
}

/// Two runs that each check one tensor.
Json compared(const std::filesystem::path& file, const at::Tensor& first, const at::Tensor& second,
              std::int64_t limit = DeterminismCheck::kLimit) {
  const StepObserver::Place place{"train", 1, "loss"};
  std::filesystem::remove(file);
  const auto writing = DeterminismCheck::writing(file, 1, limit);
  writing->see(place, "x", first);
  const auto comparing = DeterminismCheck::comparing(file, 1);
  comparing->see(place, "x", second);
  comparing->see({"train", 2, "loss"}, "x",
                 second);  // has no counterpart, and is ignored after a difference
  return comparing->finish()["difference"];
}

TEST_F(DeterminismCheckTest, LargestDifferenceCoversAllElements) {
  const auto largest = [&](const at::Tensor& a, const at::Tensor& b) {
    return compared(folder_ / "one", a, b)["largest"].dump();
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(largest(torch::tensor({1.0, 2.0, 3.0}), torch::tensor({1.0, 2.5, 2.75})), "0.5");
  EXPECT_EQ(largest(torch::tensor({1, 2}), torch::tensor({1, 9})), "7.0");
  EXPECT_EQ(largest(torch::tensor({0.0, 1.0}), torch::tensor({-0.0, 1.0})), "0.0");
  EXPECT_EQ(largest(torch::tensor({nan, 1.0}), torch::tensor({nan, 3.0})), "2.0");
  EXPECT_EQ(largest(torch::tensor({nan, 1.0}), torch::tensor({2.0, 1.0})), "\"nan\"");
  EXPECT_EQ(largest(torch::tensor({infinity, 1.0}), torch::tensor({infinity, 3.0})), "2.0");
  EXPECT_EQ(largest(torch::tensor({infinity, 1.0}), torch::tensor({0.0, 1.0})), "\"inf\"");
}

TEST_F(DeterminismCheckTest, SizeOfADifferenceIsUnknownBeyondTheLimit) {
  const at::Tensor first = torch::tensor({1.0, 2.0}), second = torch::tensor({1.0, 3.0});
  EXPECT_EQ(compared(folder_ / "one", first, second, 8)["largest"], 1.0);
  EXPECT_EQ(compared(folder_ / "one", first, second, 7).dump(),
            R"({"node":"train","step":1,"phase":"loss","tensor":"x","largest":null})");
  EXPECT_GT(std::filesystem::file_size(folder_ / "one"), 0u);
}

TEST_F(DeterminismCheckTest, RunsOfDifferentLengthDiffer) {
  run(TinyStep(), false, 2);
  EXPECT_EQ(run(TinyStep(), true, 3)["difference"]["step"], 3);
  std::filesystem::remove(folder_ / "tensors");
  run(TinyStep(), false, 3);
  EXPECT_EQ(run(TinyStep(), true, 2)["difference"]["step"], 3);
}

TEST_F(DeterminismCheckTest, DifferentShapeIsADifferenceOfUnknownSize) {
  EXPECT_EQ(compared(folder_ / "one", torch::ones({2, 3}), torch::ones({3, 2}))["largest"],
            nullptr);
  EXPECT_EQ(compared(folder_ / "one", torch::ones({2}), torch::ones({2}, torch::kLong))["largest"],
            nullptr);
}

TEST_F(DeterminismCheckTest, TrainedBitsDoNotDependOnLoaderWorkers) {
  const at::Tensor expected = train(TinyStep(), nullptr, 0);
  for (const std::int64_t workers : {1, 2, 5}) {
    EXPECT_TRUE(train(TinyStep(), nullptr, workers).equal(expected)) << workers;
  }
}

}  // namespace
}  // namespace stages
