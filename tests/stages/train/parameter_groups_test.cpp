#include "stages/train/parameter_groups.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include "runner/parent/schema/schema.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/weights/weights.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;

constexpr AdamOptions kAdam{
    .learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01};

/// A network of tower.0, tower.2 and head.
struct TwoParts : torch::nn::Module {
  TwoParts() {
    register_module("tower", torch::nn::Sequential(torch::nn::Linear(2, 3), torch::nn::Tanh(),
                                                   torch::nn::Linear(3, 3)));
    register_module("head", torch::nn::Linear(3, 2));
  }
};

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors) result.push_back(name);
  return result;
}

ParameterGroupOptions group(std::vector<std::string> match, double factor = 0.5) {
  ParameterGroupOptions options;
  options.name = match.front();
  options.place = "/parameter_groups/" + match.front();
  options.match = std::move(match);
  options.learning_rate_factor = factor;
  return options;
}
ParameterGroupOptions frozen(std::vector<std::string> match) {
  ParameterGroupOptions options = group(std::move(match));
  options.learning_rate_factor.reset();
  options.frozen = true;
  return options;
}

TEST(ParameterGroups, FirstGroupThatMatchesWins) {
  TwoParts network;
  ParameterGroupOptions plain = group({"**.bias"});
  plain.learning_rate_factor.reset();
  plain.weight_decay = 0;
  ParameterGroupOptions slow = group({"tower.0", "tower.2.weight"});
  slow.learning_rate_factor.reset();
  slow.learning_rate = 0.003;
  const auto groups = divide_parameters(network, kAdam, {plain, slow});
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(groups[0].name, "");
  EXPECT_THAT(names(groups[0].parameters), ElementsAre("head.weight"));
  EXPECT_EQ(learning_rate(groups[0].optimizer), 0.1);
  EXPECT_EQ(groups[1].name, "**.bias");
  EXPECT_THAT(names(groups[1].parameters),
              ElementsAre("tower.0.bias", "tower.2.bias", "head.bias"));
  EXPECT_EQ(std::get<AdamOptions>(groups[1].optimizer).weight_decay, 0);
  EXPECT_EQ(learning_rate(groups[1].optimizer), 0.1);
  EXPECT_THAT(names(groups[2].parameters), ElementsAre("tower.0.weight", "tower.2.weight"));
  EXPECT_EQ(learning_rate(groups[2].optimizer), 0.003);
  EXPECT_EQ(std::get<AdamOptions>(groups[2].optimizer).weight_decay, 0.01);
}

TEST(ParameterGroups, UngroupedParametersUseTheOptimizerOptions) {
  TwoParts network;
  const auto groups = divide_parameters(network, kAdam, {});
  ASSERT_EQ(groups.size(), 1);
  EXPECT_EQ(groups[0].parameters.size(), 6);
  const auto all = divide_parameters(network, kAdam, {group({"**"}, 0.25)});
  ASSERT_EQ(all.size(), 1);
  EXPECT_EQ(all[0].name, "**");
  EXPECT_EQ(learning_rate(all[0].optimizer), 0.025);
}

TEST(ParameterGroups, FrozenParametersHaveNoGradientAndNoState) {
  TwoParts network;
  const auto groups = divide_parameters(network, kAdam, {frozen({"tower"})});
  ASSERT_EQ(groups.size(), 1);
  EXPECT_THAT(names(groups[0].parameters), ElementsAre("head.weight", "head.bias"));
  EXPECT_THAT(names(trained_parameters(network)), ElementsAre("head.weight", "head.bias"));
}

runner::Diagnostics refusal(const std::vector<ParameterGroupOptions>& groups,
                            torch::nn::Module& network) {
  return refusals_of([&] { divide_parameters(network, kAdam, groups); });
}

TEST(ParameterGroups, PatternWithoutAMatchSuggestsTheNearest) {
  TwoParts network;
  EXPECT_REFUSED(refusal({group({"head"}), group({"tower.0.weight", "towr.**"})}, network),
                 kOptionConflict, "/parameter_groups/tower.0.weight", "'towr.**'", "'tower'");
  EXPECT_REFUSED(refusal({group({"tower.0.wieght"})}, network), kOptionConflict,
                 "/parameter_groups/tower.0.wieght", "'tower.0.weight'");
}

TEST(ParameterGroups, PatternWithOnlyTakenMatchesIsRejected) {
  TwoParts network;
  EXPECT_REFUSED(refusal({frozen({"**.bias"}), group({"head.bias"})}, network), kOptionConflict,
                 "/parameter_groups/head.bias", "'head.bias'", "this group up");
  EXPECT_EQ(trained_parameters(network).size(), 6);  // nothing was frozen
}

TEST(ParameterGroups, GroupOfFrozenModelParametersIsRejected) {
  TwoParts network;
  for (at::Tensor& parameter : network.named_children()["head"]->parameters())
    parameter.set_requires_grad(false);
  EXPECT_REFUSED(refusal({group({"head"})}, network), kOptionConflict, "/parameter_groups/head");
  EXPECT_TRUE(refusal({frozen({"head"})}, network).empty());  // it is frozen on request
}

TEST(ParameterGroups, NothingToTrainIsRejected) {
  TwoParts network;
  EXPECT_REFUSED(refusal({frozen({"tower", "head"})}, network), kOptionConflict,
                 "/parameter_groups", "frozen");
  EXPECT_EQ(trained_parameters(network).size(), 6);
  for (at::Tensor& parameter : network.parameters()) parameter.set_requires_grad(false);
  EXPECT_REFUSED(refusal({}, network), kOptionConflict, "", "frozen");
}

struct ReadGroups {
  std::vector<ParameterGroupOptions> groups;
  runner::Diagnostics errors;
};

/// The two options that divide parameters, as a stage reads them from the options of
/// train.supervised.
ReadGroups read(const std::string& options) {
  static const auto schemas = runner::SchemaSet::load(runner::embedded_schemas());
  runner::Value value = runner::from_json(nlohmann::ordered_json::parse(options));
  ReadGroups result;
  result.errors = schemas->validate(value, schemas->kind("train.supervised")->file);
  if (!result.errors.empty()) return result;
  std::erase_if(*value.map(), [](const runner::Entry& entry) {
    return entry.key != "parameter_groups" && entry.key != "learning_rate_factors";
  });
  runner::ConfigReader reader(value, "/train");
  result.groups =
      read_parameter_groups(reader, {{"head", {"head", "classifier"}}, {"backbone", {"**"}}});
  result.errors = reader.finish();
  return result;
}

TEST(ParameterGroups, EveryOptionIsRead) {
  const ReadGroups done = read(R"({"kind": "train.supervised", "parameter_groups": [
      {"match": "head", "name": "top", "learning_rate": 0.2, "weight_decay": 0.5},
      {"match": ["tower.0", "**.bias"], "learning_rate_factor": 0.1},
      {"match": "tower", "frozen": true}]})");
  EXPECT_TRUE(done.errors.empty()) << done.errors[0].message;
  ASSERT_EQ(done.groups.size(), 3);
  EXPECT_EQ(done.groups[0].name, "top");
  EXPECT_THAT(done.groups[0].match, ElementsAre("head"));
  EXPECT_EQ(done.groups[0].learning_rate, 0.2);
  EXPECT_EQ(done.groups[0].weight_decay, 0.5);
  EXPECT_EQ(done.groups[1].name, "1");
  EXPECT_THAT(done.groups[1].match, ElementsAre("tower.0", "**.bias"));
  EXPECT_EQ(done.groups[1].learning_rate_factor, 0.1);
  EXPECT_TRUE(done.groups[2].frozen);
  EXPECT_EQ(done.groups[2].place, "/parameter_groups/2/match");
  EXPECT_TRUE(read(R"({"kind": "train.supervised"})").groups.empty());
}

TEST(ParameterGroups, DuplicateNamesAreRejected) {
  const auto errors = read(R"({"kind": "train.supervised", "parameter_groups": [
      {"match": "a", "weight_decay": 0}, {"match": "b", "name": "0", "weight_decay": 0}]})")
                          .errors;
  ASSERT_EQ(errors.size(), 1);
  EXPECT_EQ(errors[0].message, "two groups have the name '0'");
  EXPECT_EQ(errors[0].pointer, "/train/parameter_groups/1/name");
}

TEST(ParameterGroups, FactorsAreShorthandForHeadAndBackboneGroups) {
  EXPECT_TRUE(
      read(R"({"kind": "train.supervised", "learning_rate_factors": {"head": 1}})").groups.empty());
  const ReadGroups done =
      read(R"({"kind": "train.supervised", "learning_rate_factors": {"backbone": 0.1}})");
  ASSERT_TRUE(done.errors.empty());
  TwoParts network;
  const auto groups = divide_parameters(network, kAdam, done.groups);
  ASSERT_EQ(groups.size(), 2);
  EXPECT_EQ(groups[0].name, "head");
  EXPECT_EQ(learning_rate(groups[0].optimizer), 0.1);
  EXPECT_THAT(names(groups[0].parameters), ElementsAre("head.weight", "head.bias"));
  EXPECT_EQ(groups[1].name, "backbone");
  EXPECT_DOUBLE_EQ(learning_rate(groups[1].optimizer), 0.01);
  EXPECT_EQ(groups[1].parameters.size(), 4);
}

TEST(ParameterGroups, HeadMayBeCalledClassifier) {
  torch::nn::Sequential network;
  network->push_back("backbone", torch::nn::Linear(2, 3));
  network->push_back("classifier", torch::nn::Linear(3, 2));
  const auto options =
      read(R"({"kind": "train.supervised", "learning_rate_factors": {"backbone": 0.1}})").groups;
  const auto groups = divide_parameters(*network, kAdam, options);
  ASSERT_EQ(groups.size(), 2);
  EXPECT_THAT(names(groups[0].parameters), ElementsAre("classifier.weight", "classifier.bias"));
  EXPECT_THAT(names(groups[1].parameters), ElementsAre("backbone.weight", "backbone.bias"));
}

TEST(ParameterGroups, FactorsForAModelWithoutAHeadAreRejected) {
  torch::nn::Sequential network{torch::nn::Linear(2, 3)};
  const auto groups =
      read(R"({"kind": "train.supervised", "learning_rate_factors": {"backbone": 0.1}})").groups;
  EXPECT_REFUSED(refusal(groups, *network), kOptionConflict, "/learning_rate_factors/head",
                 "'head'");
}

/// A completely frozen part needs no factor, and if another part has one, none is missing.
TEST(ParameterGroups, PartsWithoutAFactorMayBeFrozenOrMissing) {
  TwoParts network;
  for (const auto& item : network.named_parameters())
    item.value().set_requires_grad(item.key().starts_with("head."));
  auto groups =
      read(R"({"kind": "train.supervised", "learning_rate_factors": {"head": 10}})").groups;
  const auto divided = divide_parameters(network, kAdam, groups);
  ASSERT_EQ(divided.size(), 1);
  EXPECT_EQ(divided[0].name, "head");
  groups[1].match = {"text"};
  EXPECT_EQ(divide_parameters(network, kAdam, groups).size(), 1);
  groups[1].learning_rate_factor = 0.5;
  groups[1].may_be_empty = false;
  EXPECT_REFUSED(refusal(groups, network), kOptionConflict, "/learning_rate_factors/backbone",
                 "'text'");
}

}  // namespace
}  // namespace stages
