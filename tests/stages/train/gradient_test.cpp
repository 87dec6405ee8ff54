#include "stages/train/gradient.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "stages/weights.h"
#include "tests/support/distance.h"
#include "tests/support/tiny_step.h"

namespace stages {
namespace {

/// A float64 network and its gradient after one batch.
struct GradientCase {
  std::shared_ptr<torch::nn::Module> network;
  explicit GradientCase(const TinyStep& step) : network(step.model.build(TinyDataset(9).describe(), 3)) {
    network->to(torch::kDouble);
  }
  at::Tensor gradient() const {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor] : trained_parameters(*network)) all.push_back(tensor.grad().flatten());
    return torch::cat(all);
  }
};
at::Tensor gradient_of(const TinyStep& step, const Batch& batch, std::int64_t micro_batch) {
  const GradientCase one(step);
  accumulate_gradient(step, *one.network, batch, step.weight(batch), {.micro_batch = micro_batch}, {});
  return one.gradient();
}

Batch ten_samples() {
  torch::manual_seed(5);
  return Batch({{"image", torch::randn({10, 2}, torch::kDouble)}, {"label", torch::randint(0, 3, {10})}}, 10);
}

TEST(Gradient, MicroBatchesAddUpToTheWholeBatch) {
  const TinyStep step;
  const Batch batch = ten_samples();
  const at::Tensor whole = gradient_of(step, batch, 0);
  for (const std::int64_t micro_batch : {1, 3, 4, 9, 10, 64})
    EXPECT_LT(distance(gradient_of(step, batch, micro_batch), whole), 1e-15) << micro_batch;
}

TEST(Gradient, MeanOfPartMeansWouldDiffer) {
  const TinyStep step;
  const Batch batch = ten_samples();
  const GradientCase wrong(step);
  for (const auto& [begin, end] : {std::pair(0, 4), std::pair(4, 8), std::pair(8, 10)}) {
    const Batch part = batch.part(begin, end);
    accumulate_gradient(step, *wrong.network, part, 3 * step.weight(part), {}, {});
  }
  EXPECT_GT(distance(wrong.gradient(), gradient_of(step, batch, 0)), 1e-2);
}

TEST(Gradient, WeightsOfSamplesDivide) {
  class WeightedStep final : public TinyStep {
   public:
    NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
      const at::Tensor each = torch::cross_entropy_loss(encoded.at("logits"), part["label"], {}, at::Reduction::None);
      return {{"cross_entropy", (each * part["weight"]).sum()}};
    }
    double weight(const Batch& batch) const override { return batch["weight"].sum().item<double>(); }
  };
  const WeightedStep step;
  Batch batch = ten_samples();
  NamedTensors tensors = batch.tensors();
  tensors.set("weight", torch::rand(10, torch::kDouble) + 0.1);
  batch = Batch(tensors, 10);
  EXPECT_LT(distance(gradient_of(step, batch, 4), gradient_of(step, batch, 0)), 1e-15);
  EXPECT_GT(distance(gradient_of(TinyStep(), batch, 0), gradient_of(step, batch, 0)), 1e-2);
}

/// Two layers with dropout of elements and of samples between them.
class DropoutNet : public torch::nn::Module {
 public:
  DropoutNet() {
    torch::manual_seed(3);
    first_ = register_module("first", torch::nn::Linear(2, 8));
    elements_ = register_module("elements", std::make_shared<Dropout>(0.4));
    samples_ = register_module("samples", std::make_shared<Dropout>(0.3, DropoutUnit::kSample));
    second_ = register_module("second", torch::nn::Linear(8, 3));
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = first_->forward(x).tanh();
    return second_->forward(hidden + samples_->forward(elements_->forward(hidden)));
  }

 private:
  torch::nn::Linear first_ = nullptr, second_ = nullptr;
  std::shared_ptr<Dropout> elements_, samples_;
};

class DropoutStep final : public TinyStep {
 public:
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return {{"logits", dynamic_cast<DropoutNet&>(network).forward(part["image"])}};
  }
};

/// The gradient of DropoutNet after batches that are weighed as parts of one.
at::Tensor dropout_gradient(const std::vector<Batch>& batches, std::int64_t micro_batch, StepKey key = {7, 1}) {
  DropoutNet net;
  for (const Batch& batch : batches)
    accumulate_gradient(DropoutStep(), net, batch, 10, {.micro_batch = micro_batch}, key);
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : net.parameters()) all.push_back(parameter.grad().flatten());
  return torch::cat(all);
}

TEST(Gradient, DropoutKnowsNothingOfMicroBatches) {
  Batch batch = ten_samples();
  for (const bool has_indices : {true, false}) {
    batch.indices =
        has_indices ? std::vector<std::int64_t>{12, 5, 77, 3, 40, 41, 8, 1000, 0, 9} : std::vector<std::int64_t>{};
    const at::Tensor whole = dropout_gradient({batch}, 0);
    for (const std::int64_t micro_batch : {1, 3, 4, 9})
      EXPECT_LT(distance(dropout_gradient({batch}, micro_batch), whole), 1e-14) << micro_batch;
    EXPECT_TRUE(dropout_gradient({batch}, 4).equal(dropout_gradient({batch}, 4)));
    EXPECT_GT(distance(dropout_gradient({batch}, 0, {7, 2}), whole), 1e-3);
    EXPECT_GT(distance(dropout_gradient({batch}, 0, {8, 1}), whole), 1e-3);
  }
}

TEST(Gradient, DropoutByThePlaceInAMicroBatchWouldDiffer) {
  const Batch batch = ten_samples();  // its samples are known by their places alone
  const std::vector<Batch> parts = {batch.part(0, 4), batch.part(4, 8), batch.part(8, 10)};
  EXPECT_GT(distance(dropout_gradient(parts, 0), dropout_gradient({batch}, 0)), 1e-3);
}

/// A loss that is a function of all queries of a group, such as prototypes make.
class GroupStep final : public TinyStep {
 public:
  GroupStep() { coupling = Coupling::kPerGroup; }
  NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
    return {{"support", model.forward(network, {{"image", part["support"]}}).at("logits")},
            {"query", model.forward(network, {{"image", part["query"]}}).at("logits")}};
  }
  NamedTensors loss(const NamedTensors& encoded, const Batch& part) const override {
    at::Tensor total = torch::zeros({}, torch::kDouble);
    const at::Tensor groups = part["support_group"], query_groups = part["query_group"];
    for (std::int64_t row = 0; row < groups.size(0); ++row) {
      const at::Tensor mine = encoded.at("query").index({query_groups == groups[row]});
      total = total + (mine.mean(0) - encoded.at("support")[row]).square().sum().sqrt();
    }
    return {{"cross_entropy", total}};
  }
  NamedTensors score(const NamedTensors&, const Batch&) const override { return {}; }
};

TEST(Gradient, GroupsAreCutBetweenGroups) {
  torch::manual_seed(6);
  const Batch batch({{"support", torch::randn({4, 2}, torch::kDouble)},
                     {"support_group", torch::arange(4)},
                     {"query", torch::randn({11, 2}, torch::kDouble)},
                     {"query_group", torch::tensor({0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 3})}},
                    4,
                    {{"support", {0, 1, 2, 3, 4}},
                     {"support_group", {0, 1, 2, 3, 4}},
                     {"query", {0, 2, 5, 6, 11}},
                     {"query_group", {0, 2, 5, 6, 11}}});
  const GroupStep step;
  const at::Tensor whole = gradient_of(step, batch, 0);
  for (const std::int64_t micro_batch : {1, 2, 3})
    EXPECT_LT(distance(gradient_of(step, batch, micro_batch), whole), 1e-14) << micro_batch;
}

}  // namespace
}  // namespace stages
