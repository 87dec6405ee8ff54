#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "stages/model/transformer_block.h"
#include "stages/random/dropout.h"
#include "stages/train/gradient.h"
#include "tests/support/distance.h"
#include "tests/support/on_test_device.h"
#include "tests/support/tiny_step.h"

/// The gradients of all parameters after one batch on test_device(), concatenated; the network has
/// none afterward. Throws if a parameter got no gradient.
inline at::Tensor gradient_of(const stages::TrainingStep& step, torch::nn::Module& network,
                              const stages::Batch& batch, const stages::StepPlan& plan = {},
                              const stages::StepKey& key = {7, 1},
                              const std::optional<at::Tensor>& scale = {}) {
  const at::Device device(test_device());
  network.to(device);
  const stages::PreparedNetwork prepared(network, plan.numerics, device);
  stages::accumulate_gradient(step, prepared, prepared.placed(batch), step.weight(batch), plan, key,
                              {.scale = scale ? std::optional(scale->to(device)) : scale});
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : network.parameters())
    all.push_back(parameter.grad().flatten());
  network.zero_grad();
  return torch::cat(all).cpu();
}

/// The parts that a network drops in training.
enum class Drops { kNothing, kElements, kSamples, kAttention, kAll };
constexpr Drops kEveryDrop[] = {Drops::kNothing, Drops::kElements, Drops::kSamples,
                                Drops::kAttention, Drops::kAll};

/// Maps points in a plane to `width` values, with a transformer block over three tokens; float64.
class DroppingNet : public torch::nn::Module {
 public:
  explicit DroppingNet(Drops drops, std::int64_t width = 3) {
    const auto rate = [&](Drops one, double value) {
      return drops == one || drops == Drops::kAll ? value : 0;
    };
    const auto options = torch::TensorOptions(torch::kDouble);
    first_ = register_module("first", torch::nn::Linear(2, 24));
    block_ = register_module(
        "block", std::make_shared<stages::TransformerBlock>(
                     stages::BlockOptions{.hidden_size = 8,
                                          .intermediate_size = 16,
                                          .num_attention_heads = 2,
                                          .hidden_act = stages::Activation::kGelu,
                                          .layer_norm_eps = 1e-5,
                                          .attention_dropout = rate(Drops::kAttention, 0.4)},
                     rate(Drops::kSamples, 0.4), options));
    elements_ =
        register_module("elements", std::make_shared<stages::Dropout>(rate(Drops::kElements, 0.4)));
    last_ = register_module("last", torch::nn::Linear(8, width));
    to(torch::kDouble);
    torch::manual_seed(3);
    const torch::NoGradGuard no_graph;
    for (const at::Tensor& parameter : parameters()) parameter.normal_(0, 0.5);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor tokens = first_->forward(x).view({x.size(0), 3, 8});
    return last_->forward(elements_->forward(block_->forward(tokens).mean(1)));
  }

 private:
  torch::nn::Linear first_ = nullptr, last_ = nullptr;
  std::shared_ptr<stages::TransformerBlock> block_;
  std::shared_ptr<stages::Dropout> elements_;
};

/// Cross-entropy of the outputs of a DroppingNet.
class DroppingStep final : public TinyStep {
 public:
  stages::NamedTensors encode(torch::nn::Module& network,
                              const stages::Batch& part) const override {
    return {{"logits", dynamic_cast<DroppingNet&>(network).forward(part["image"])}};
  }
};

/// Ten labeled points.
inline stages::Batch ten_samples() {
  torch::manual_seed(5);
  return stages::Batch(
      {{"image", torch::randn({10, 2}, torch::kDouble)}, {"label", torch::randint(0, 3, {10})}},
      10);
}

/// Four groups with one support each, and with two, three, one and five queries.
inline stages::Batch four_groups() {
  torch::manual_seed(6);
  return stages::Batch({{"support", torch::randn({4, 2}, torch::kDouble)},
                        {"support_group", torch::arange(4)},
                        {"query", torch::randn({11, 2}, torch::kDouble)},
                        {"query_group", torch::tensor({0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 3})}},
                       4,
                       {{"support", {0, 1, 2, 3, 4}},
                        {"support_group", {0, 1, 2, 3, 4}},
                        {"query", {0, 2, 5, 6, 11}},
                        {"query_group", {0, 2, 5, 6, 11}}});
}

/// The distance of each group's support from the mean of its queries, in the embedding of a
/// DroppingNet.
class GroupStep : public TinyStep {
 public:
  GroupStep() { coupling = stages::Coupling::kPerGroup; }
  stages::NamedTensors encode(torch::nn::Module& network,
                              const stages::Batch& part) const override {
    return {{"support", embed(network, part, "support")}, {"query", embed(network, part, "query")}};
  }
  stages::NamedTensors loss(const stages::NamedTensors& encoded,
                            const stages::Batch& part) const override {
    at::Tensor total = torch::zeros({}, encoded.at("query").options());
    const at::Tensor groups = part["support_group"], query_groups = part["query_group"];
    for (std::int64_t row = 0; row < groups.size(0); ++row) {
      const at::Tensor mine = encoded.at("query").index({query_groups == groups[row]});
      total = total + (mine.mean(0) - encoded.at("support")[row]).square().sum().sqrt();
    }
    return {{"cross_entropy", total}};
  }
  stages::NamedTensors score(const stages::NamedTensors&, const stages::Batch&) const override {
    return {};
  }

  bool names_inputs = true;

 private:
  at::Tensor embed(torch::nn::Module& network, const stages::Batch& part, const char* name) const {
    std::optional<stages::ScopedInput> input;
    if (names_inputs) input.emplace(network, name);
    return dynamic_cast<DroppingNet&>(network).forward(part[name]);
  }
};
