// Checks per-sample losses as `retort certify` does: compares the gradient of micro-batches with
// that of the whole batch, in float64.

#include <ostream>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/memory/policy.h"
#include "stages/model/coral_layer.h"
#include "stages/stages.h"
#include "tests/support/label_points.h"
#include "tests/support/planning_context.h"
#include "tests/support/stage_of.h"
#include "tests/support/target_points.h"
#include "tests/support/tiny_dataset.h"

namespace stages {
namespace {

/// Two layers; the second is the head that the data requires.
class HeadedNetwork final : public torch::nn::Module {
 public:
  HeadedNetwork(const DatasetDescription& data, const at::TensorOptions& options)
      : hidden_(
            register_module("hidden", std::make_shared<Linear>(2, 8, /*with_bias=*/true, options))),
        head_(register_module("head",
                              classifier_layer(8, logits_for(data), data.ordinal, options))) {}
  at::Tensor forward(const at::Tensor& x) const {
    return head_->forward(torch::tanh(hidden_->forward(x)));
  }

 private:
  const std::shared_ptr<Linear> hidden_, head_;
};

class HeadedModel final : public Model {
 public:
  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override {
    auto network = std::make_shared<HeadedNetwork>(data, at::TensorOptions(at::kFloat));
    const torch::NoGradGuard no_graph;
    at::Generator generator = at::detail::createCPUGenerator(seed);
    for (at::Tensor& parameter : network->parameters()) parameter.normal_(0, 1, generator);
    return network;
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return std::make_shared<HeadedNetwork>(data, at::TensorOptions(at::kFloat).device(at::kMeta));
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    return {{"logits", dynamic_cast<HeadedNetwork&>(network).forward(inputs.at("image"))}};
  }
  bool mixes_samples() const override { return false; }
  bool has_ordinal_head(OrdinalHead /*head*/) const override { return true; }
};

std::shared_ptr<Dataset> labeled_points() { return std::make_shared<LabelPoints>(40); }
std::shared_ptr<Dataset> measured_points() { return std::make_shared<TargetPoints>(40); }
std::shared_ptr<Dataset> graded_points() {
  auto points = std::make_shared<TinyDataset>(40, 4);
  points->class_names = {"0", "1", "2", "3"};
  return points;
}

struct CertifiedLoss {
  std::string name;
  const runner::StageKind* kind;
  std::string loss;  ///< the options of the loss
  std::shared_ptr<Dataset> (*train)();
};

void PrintTo(const CertifiedLoss& loss, std::ostream* out) { *out << loss.name; }

class CertifiedLosses : public testing::TestWithParam<CertifiedLoss> {};

TEST_P(CertifiedLosses, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  const CertifiedLoss& loss = GetParam();
  const auto policy = std::make_shared<MemoryPolicy>();
  policy->pointer = "/memory";
  policy->micro_batch = 3;
  const runner::Inputs inputs({{"train", {loss.train()}},
                               {"model", {std::make_shared<HeadedModel>()}},
                               {"memory", {policy}}},
                              {{"model", "model"}});
  PlanningContext planning;
  planning.asked.wants_certificate = true;
  stage_of(*loss.kind, R"({"epochs": 1, "batch_size": 8, "loss": )" + loss.loss + "}")
      ->plan(inputs, planning);
  ASSERT_TRUE(planning.certified);
  EXPECT_EQ(planning.certified->refused, "");
  EXPECT_THAT(planning.certified->compared,
              testing::StartsWith("micro_batch 2 against the whole batch of 5"));
  EXPECT_THAT(planning.certified->changed, testing::IsEmpty());
  EXPECT_EQ(planning.certified->parameters.size(), 4u);
  EXPECT_LT(planning.certified->worst(), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Each, CertifiedLosses,
    testing::Values(
        CertifiedLoss{"BinaryCrossEntropy", &kTrainMultiLabel,
                      R"({"kind": "binary_cross_entropy", "pos_weight": "balanced"})",
                      labeled_points},
        CertifiedLoss{"Focal", &kTrainMultiLabel, R"({"kind": "focal"})", labeled_points},
        CertifiedLoss{"Asymmetric", &kTrainMultiLabel, R"({"kind": "asymmetric"})", labeled_points},
        CertifiedLoss{"SquaredError", &kTrainRegression, R"({"kind": "mse"})", measured_points},
        CertifiedLoss{"AbsoluteError", &kTrainRegression, R"({"kind": "l1"})", measured_points},
        CertifiedLoss{"Huber", &kTrainRegression, R"({"kind": "huber"})", measured_points},
        CertifiedLoss{"SmoothL1", &kTrainRegression, R"({"kind": "smooth_l1"})", measured_points},
        CertifiedLoss{"Corn", &kTrainSupervised, R"({"kind": "corn", "order": null})",
                      graded_points},
        CertifiedLoss{"Coral", &kTrainSupervised,
                      R"({"kind": "coral", "order": null, "importance_weights": null})",
                      graded_points}),
    [](const testing::TestParamInfo<CertifiedLoss>& info) { return info.param.name; });

}  // namespace
}  // namespace stages
