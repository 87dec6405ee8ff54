#include "stages/train/layer_decay.h"

#include <cmath>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "stages/numerics/recomputable_module.h"
#include "stages/train/parameter_groups.h"
#include "stages/train/trainer_options.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;

struct Block : RecomputableModule {
  Block() { register_module("linear", torch::nn::Linear(2, 2)); }
  bool is_block() const override { return true; }
  at::Tensor compute(const at::Tensor& x) const override { return x; }
};

/// stem, blocks.0, between, blocks.1, norm and head, in order of registration.
struct Tower : torch::nn::Module {
  explicit Tower(bool has_blocks = true) {
    register_module("stem", torch::nn::Linear(2, 2));
    if (has_blocks) {
      auto blocks = register_module("blocks", std::make_shared<torch::nn::Module>());
      blocks->register_module("0", std::make_shared<Block>());
      blocks->register_module("between", torch::nn::Linear(2, 2));
      blocks->register_module("1", std::make_shared<Block>());
    }
    register_module("norm", torch::nn::Linear(2, 2));
    register_module("head", torch::nn::Linear(2, 3));
  }
};

constexpr double kRate = 0.1;

TrainerOptions options_with(std::optional<double> decay) {
  TrainerOptions options;
  options.optimizer = AdamOptions{
      .learning_rate = kRate, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01};
  options.layer_decay = decay;
  return options;
}

double rate_of(const ParameterGroup& group) {
  return std::visit([](const auto& one) { return one.learning_rate; }, group.optimizer);
}

/// Returns the learning rate of each parameter.
std::map<std::string, double> rates(const std::vector<ParameterGroup>& groups) {
  std::map<std::string, double> result;
  for (const ParameterGroup& group : groups) {
    for (const auto& [name, tensor] : group.parameters) result[name] = rate_of(group);
  }
  return result;
}

TEST(LayerDecay, EachLayerLearnsMoreSlowlyThanTheNext) {
  Tower network;
  const auto groups = groups_of_training(network, options_with(0.5));
  const auto found = rates(groups);
  EXPECT_EQ(found.size(), network.parameters().size()) << "each parameter is in one group";
  for (const auto& [module, halvings] : std::map<std::string, int>{{"stem", 3},
                                                                   {"blocks.0.linear", 2},
                                                                   {"blocks.between", 2},
                                                                   {"blocks.1.linear", 1},
                                                                   {"norm", 0},
                                                                   {"head", 0}}) {
    EXPECT_DOUBLE_EQ(found.at(module + ".weight"), kRate * std::pow(0.5, halvings)) << module;
    EXPECT_DOUBLE_EQ(found.at(module + ".bias"), kRate * std::pow(0.5, halvings)) << module;
  }
  std::vector<std::string> names;
  for (const ParameterGroup& group : groups) names.push_back(group.name);
  EXPECT_THAT(names, ElementsAre("", "layer_2", "layer_1", "layer_0"));
}

TEST(LayerDecay, MultipliesTheRatesOfParameterGroups) {
  Tower network;
  TrainerOptions options = options_with(0.5);
  options.parameter_groups = {
      {.name = "bias",
       .match = {"**.bias"},
       .learning_rate_factor = 10.0,
       .place = "/parameter_groups/0/match"},
      {.name = "frozen", .match = {"head"}, .frozen = true, .place = "/parameter_groups/1/match"}};
  const auto found = rates(groups_of_training(network, options));
  EXPECT_DOUBLE_EQ(found.at("stem.bias"), 10 * kRate / 8);
  EXPECT_DOUBLE_EQ(found.at("stem.weight"), kRate / 8);
  EXPECT_DOUBLE_EQ(found.at("norm.bias"), 10 * kRate);
  EXPECT_FALSE(found.contains("head.weight")) << "frozen";
}

TEST(LayerDecay, GroupsAreUnchangedWithoutLayerDecay) {
  Tower network;
  for (const std::optional<double> none : {std::optional<double>(), std::optional(1.0)}) {
    const auto groups = groups_of_training(network, options_with(none));
    ASSERT_EQ(groups.size(), 1U);
    EXPECT_EQ(rate_of(groups[0]), kRate);
  }
}

TEST(LayerDecay, NetworkWithoutBlocksIsRejected) {
  Tower network(/*has_blocks=*/false);
  EXPECT_EQ(NetworkLayers(network).without_blocks(), "");
  EXPECT_REFUSED(groups_of_training(network, options_with(0.5)), kOptionConflict, "/layer_decay");
  EXPECT_NO_THROW(groups_of_training(network, options_with({})));
}

/// Two towers of different depth, registered one after the other, with projections at the end as in
/// CLIP.
struct Towers : torch::nn::Module {
  explicit Towers(bool second_has_blocks = true) {
    register_parameter("scale", torch::ones({}));
    add("image", 3);
    add("text", second_has_blocks ? 1 : 0);
    register_module("image_projection", torch::nn::Linear(2, 2));
    register_module("text_projection", torch::nn::Linear(2, 2));
  }
  void add(const std::string& name, int blocks) {
    auto tower = register_module(name, std::make_shared<torch::nn::Module>());
    tower->register_module("stem", torch::nn::Linear(2, 2));
    for (int i = 0; i < blocks; ++i)
      tower->register_module(std::to_string(i), std::make_shared<Block>());
  }
};

TrainerOptions options_with_towers() {
  TrainerOptions options = options_with(0.5);
  options.towers = {{"image", {"image", "image_projection"}, true},
                    {"text", {"text", "text_projection"}, true}};
  return options;
}

TEST(LayerDecay, TowersAreDividedSeparately) {
  Towers network;
  TrainerOptions options = options_with_towers();
  options.parameter_groups = {
      {.name = "text", .match = {"text"}, .place = "/parameter_groups/0/match"}};
  const auto groups = groups_of_training(network, options);
  const auto found = rates(groups);
  EXPECT_EQ(found.size(), network.parameters().size()) << "each parameter is in one group";
  for (const auto& [parameter, halvings] :
       std::map<std::string, int>{{"image.stem.weight", 4},
                                  {"image.0.linear.weight", 3},
                                  {"image.2.linear.weight", 1},
                                  {"image_projection.weight", 0},
                                  {"text.stem.weight", 2},
                                  {"text.0.linear.weight", 1},
                                  {"text_projection.weight", 0},
                                  {"scale", 0}}) {
    EXPECT_DOUBLE_EQ(found.at(parameter), kRate * std::pow(0.5, halvings)) << parameter;
  }
  std::vector<std::string> names;
  for (const ParameterGroup& group : groups) names.push_back(group.name);
  EXPECT_THAT(names, ElementsAre("", "image/layer_3", "image/layer_2", "image/layer_1",
                                 "image/layer_0", "text/layer_1", "text/layer_0"));
}

TEST(LayerDecay, TowerWithoutBlocksIsRejected) {
  Towers network(/*second_has_blocks=*/false);
  EXPECT_EQ(NetworkLayers(network, options_with_towers().towers).without_blocks(), "text");
  EXPECT_REFUSED(groups_of_training(network, options_with_towers()), kOptionConflict,
                 "/layer_decay");
}

}  // namespace
}  // namespace stages
