#include "stages/retina/vote.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "tests/support/refused.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

const std::vector<std::string> kGrades = {"mild", "moderate", "severe"};

std::shared_ptr<const Checkpoint> network(const std::shared_ptr<const Model>& model,
                                          const std::string& first, const std::string& second) {
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->model = model;
  checkpoint->classes = {first, second};
  checkpoint->pair_of = 3;
  return checkpoint;
}

runner::Diagnostics refusal_of_ensemble(
    const std::vector<std::shared_ptr<const Checkpoint>>& networks) {
  return refusals_of([&] { make_ensemble(networks, kGrades); });
}

const auto kOne = std::make_shared<const TinyModel>(), kOther = std::make_shared<const TinyModel>();

TEST(Ensemble, NetworksAreSortedByClass) {
  const Ensemble ensemble =
      make_ensemble({network(kOne, "moderate", "severe"), network(kOne, "severe", "mild"),
                     network(kOne, "mild", "moderate")},
                    kGrades);
  ASSERT_EQ(ensemble.members.size(), 3u);
  EXPECT_EQ(ensemble.name_of(ensemble.members[0]), "mild-moderate");
  EXPECT_EQ(ensemble.name_of(ensemble.members[1]), "mild-severe");
  EXPECT_EQ(ensemble.name_of(ensemble.members[2]), "moderate-severe");
  EXPECT_FALSE(ensemble.members[0].is_turned);
  EXPECT_TRUE(ensemble.members[1].is_turned);
}

/// A model with a name.
class CalledModel final : public Model, public NamedModel {
 public:
  explicit CalledModel(std::string name) : name_(std::move(name)) {}
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription&,
                                           std::uint64_t) const override {
    return {};
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription&) const override {
    return {};
  }
  NamedTensors forward(torch::nn::Module&, const NamedTensors&) const override { return {}; }
  bool mixes_samples() const override { return false; }
  std::string architecture() const override { return name_; }

 private:
  const std::string name_;
};

TEST(Ensemble, SetsAreNamedAfterTheirModels) {
  std::vector<std::shared_ptr<const Checkpoint>> networks;
  const std::vector<std::shared_ptr<const Model>> models = {
      std::make_shared<CalledModel>("resnet50"), std::make_shared<CalledModel>("densenet121"), kOne,
      std::make_shared<CalledModel>("resnet50")};
  for (const auto& model : models) {
    networks.push_back(network(model, "mild", "moderate"));
    networks.push_back(network(model, "mild", "severe"));
    networks.push_back(network(model, "moderate", "severe"));
  }
  EXPECT_THAT(make_ensemble(networks, kGrades).models,
              testing::ElementsAre("resnet50.0", "densenet121", "2", "resnet50.3"));
}

TEST(Ensemble, NetworksOfEachModelFormASet) {
  std::vector<std::shared_ptr<const Checkpoint>> networks;
  for (const auto& model : {kOne, kOther}) {
    networks.push_back(network(model, "mild", "moderate"));
    networks.push_back(network(model, "mild", "severe"));
    networks.push_back(network(model, "moderate", "severe"));
  }
  const Ensemble ensemble = make_ensemble(networks, kGrades);
  EXPECT_EQ(ensemble.sets, 2u);
  EXPECT_EQ(ensemble.name_of(ensemble.members[1]), "mild-severe.0");
  EXPECT_EQ(ensemble.name_of(ensemble.members[4]), "mild-severe.1");
  networks.pop_back();
  EXPECT_REFUSED(refusal_of_ensemble(networks), kLabelOutOfRange, "", "'moderate-severe.1'");
}

TEST(Ensemble, MissingAndRepeatedPairsAreReported) {
  EXPECT_REFUSED(
      refusal_of_ensemble({network(kOne, "mild", "severe"), network(kOne, "severe", "mild")}),
      kLabelOutOfRange, "", "none for 'mild-moderate', 'moderate-severe'",
      "several for 'mild-severe'");
}

TEST(Ensemble, NetworkForDifferentClassesIsRejected) {
  EXPECT_REFUSED(refusal_of_ensemble({network(kOne, "mild", "awful")}), kLabelOutOfRange, "",
                 "'awful'");
  auto whole = std::make_shared<Checkpoint>();
  whole->classes = kGrades;
  EXPECT_REFUSED(refusal_of_ensemble({whole}), kLabelOutOfRange, "", "3 classes");
}

TEST(Ensemble, AccuracyComesFromValidation) {
  auto known = std::make_shared<Checkpoint>(*network(kOne, "mild", "severe"));
  known->validation = {{"accuracy", 0.75}};
  const Ensemble ensemble = make_ensemble(
      {known, network(kOne, "mild", "moderate"), network(kOne, "moderate", "severe")}, kGrades);
  EXPECT_EQ(ensemble.pairs()[1].accuracy, 0.75);
  EXPECT_EQ(ensemble.pairs()[0].accuracy, 0);
  EXPECT_EQ(ensemble.name_of(*ensemble.without_accuracy()), "mild-moderate");
}

}  // namespace
}  // namespace stages
