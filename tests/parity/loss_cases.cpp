// Losses and their gradients, compared with torch.

#include "stages/contrastive/contrastive_loss.h"
#include "stages/few_shot/train_episodic.h"
#include "stages/model/coral_layer.h"
#include "stages/train/classification_loss.h"
#include "stages/train/multi_label_loss.h"
#include "stages/train/ordinal_loss.h"
#include "stages/train/regression_loss.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

FocalFactor focal_of(const RecordedCase& recorded) {
  return {recorded.json.at("case").at("alpha"), recorded.json.at("case").at("gamma")};
}

void compare_multiclass(const RecordedCase& recorded) {
  const at::Tensor labels = integers_of(recorded.json.at("target"));
  const double smoothing = recorded.json.at("case").at("smoothing");
  for (const auto& [name, share] : {std::pair("ce", 0.0), std::pair("ce_smoothed", smoothing)}) {
    const at::Tensor logits = tensor_of(recorded.json.at("logits")).requires_grad_();
    const at::Tensor loss = cross_entropy_sum(logits, labels, share) / labels.size(0);
    loss.backward();
    expect_close(loss.item<double>(), recorded.json.at(name).at("loss"), name);
    expect_close(logits.grad(), tensor_of(recorded.json.at(name).at("grad_logits")), name);
  }
  const at::Tensor weights = tensor_of(recorded.json.at("class_weight"));
  const double divisor = weights.index_select(0, labels)
                             .sum()
                             .item<double>();  // like torch's mean of weighted samples
  for (const auto& [name, share] :
       {std::pair("ce_weighted", 0.0), std::pair("ce_weighted_smoothed", smoothing)}) {
    const at::Tensor logits = tensor_of(recorded.json.at("logits")).requires_grad_();
    const at::Tensor loss = cross_entropy_sum(logits, labels, share, weights) / divisor;
    loss.backward();
    expect_close(loss.item<double>(), recorded.json.at(name).at("loss"), name);
    expect_close(logits.grad(), tensor_of(recorded.json.at(name).at("grad_logits")), name);
  }
  const at::Tensor logits = tensor_of(recorded.json.at("logits")).requires_grad_();
  const at::Tensor loss =
      classification_loss_sum(logits, labels, {focal_of(recorded)}) / labels.size(0);
  loss.backward();
  expect_close(loss.item<double>(), recorded.json.at("focal").at("loss"), "focal");
  expect_close(logits.grad(), tensor_of(recorded.json.at("focal").at("grad_logits")), "focal");
}

/// One logit for two classes.
void compare_binary(const RecordedCase& recorded) {
  const at::Tensor labels = tensor_of(recorded.json.at("target")).to(at::kLong);
  const nlohmann::json& asked = recorded.json.at("case");
  const at::Tensor second_weighs_more =
      torch::tensor({1.0, asked.at("pos_weight").get<double>()}, at::kDouble);
  struct Variant {
    const char* name;
    ClassificationLoss loss;
    at::Tensor class_weights;
  };
  for (const auto& [name, loss, weights] :
       {Variant{"bce", {}, {}},
        Variant{"bce_smoothed", {.label_smoothing = asked.at("smoothing")}, {}},
        Variant{"bce_pos_weight", {}, second_weighs_more},
        Variant{"focal", {focal_of(recorded)}, {}}}) {
    const at::Tensor logits = tensor_of(recorded.json.at("logits")).requires_grad_();
    const at::Tensor mean = pair_loss_sum(logits, labels, loss, weights) / labels.size(0);
    mean.backward();
    expect_close(mean.item<double>(), recorded.json.at(name).at("loss"), name);
    expect_close(logits.grad(), tensor_of(recorded.json.at(name).at("grad_logits")), name);
  }
}

/// The covariance of all features of an episode, in both forms.
void compare_variance_and_covariance(const RecordedCase& recorded) {
  for (const auto& [name, form] : {std::pair("covariance_direct", CovarianceForm::kDirect),
                                   std::pair("covariance_gram", CovarianceForm::kGram)}) {
    const at::Tensor z = tensor_of(recorded.json.at("z")).requires_grad_();
    const at::Tensor loss = covariance_loss(z.flatten(0, 1), form);
    loss.backward();
    expect_close(loss.item<double>(), recorded.json.at(name).at("loss"), name);
    expect_close(z.grad(), tensor_of(recorded.json.at(name).at("grad_z")), name);
  }
  for (const auto& [name, deviation] : {std::pair("variance_unbiased", Deviation::kUnbiased),
                                        std::pair("variance_biased", Deviation::kBiased)}) {
    if (!recorded.json.contains(name)) continue;
    const at::Tensor z = tensor_of(recorded.json.at("z")).requires_grad_();
    const at::Tensor loss = support_variance_loss(z, /*target=*/1, deviation);
    loss.backward();
    expect_close(loss.item<double>(), recorded.json.at(name).at("loss"), name);
    expect_close(z.grad(), tensor_of(recorded.json.at(name).at("grad_z")), name);
  }
}

/// Features are normalized first, also in the recorded gradients.
void compare_info_nce(const RecordedCase& recorded) {
  for (const auto& [name, variant] : recorded.json.at("variants").items()) {
    PairGroups groups;
    if (name == "same_class") {
      groups.of_pair = integers_of(recorded.json.at("case").at("classes"));
      groups.count = groups.of_pair.max().item<std::int64_t>() + 1;
    } else {
      ASSERT_EQ(name, "diagonal");
    }
    for (const std::int64_t tile : {3, 1000}) {
      const at::Tensor image = tensor_of(recorded.json.at("image")).requires_grad_(),
                       text = tensor_of(recorded.json.at("text")).requires_grad_();
      const at::Tensor scale =
          torch::tensor(recorded.json.at("case").at("logit_scale").get<double>(), at::kDouble)
              .requires_grad_();
      const at::Tensor loss = contrastive_loss(image / image.norm(2, 1, true),
                                               text / text.norm(2, 1, true), scale, groups, tile);
      loss.backward();
      expect_close(loss.item<double>(), variant.at("loss"), name);
      expect_close(image.grad(), tensor_of(variant.at("grad_image")), name + " by images");
      expect_close(text.grad(), tensor_of(variant.at("grad_text")), name + " by texts");
      expect_close(scale.grad().item<double>(), variant.at("grad_logit_scale"),
                   name + " by the scale");
    }
  }
}

/// The loss of a variant, as the option `loss` would specify it.
MultiLabelLoss multi_label_loss(const nlohmann::json& variant, double smoothing) {
  const std::string kind = variant.at("kind");
  if (kind == "asymmetric")
    return AsymmetricLoss{variant.at("gamma_negative"), variant.at("gamma_positive"),
                          variant.at("clip")};
  if (kind == "focal") {
    const double alpha = variant.at("alpha");
    return LabelFocal{alpha < 0 ? std::nullopt : std::optional(alpha), variant.at("gamma")};
  }
  return LabelEntropy{variant.contains("smoothed") ? smoothing : 0, {}};
}

/// One sigmoid per label. timm computes in float32.
void compare_multi_label(const RecordedCase& recorded) {
  constexpr double kFloat = 2e-6, kDouble = 1e-12;
  const at::Tensor target = tensor_of(recorded.json.at("target"));
  for (const nlohmann::json& variant : recorded.json.at("variants")) {
    const MultiLabelLoss loss = multi_label_loss(variant, recorded.json.at("case").at("smoothing"));
    const double tolerance = std::holds_alternative<AsymmetricLoss>(loss) ? kFloat : kDouble;
    const at::Tensor logits = tensor_of(recorded.json.at("logits")).requires_grad_();
    const at::Tensor weights =
        variant.contains("weighted") ? tensor_of(recorded.json.at("pos_weight")) : at::Tensor();
    const at::Tensor mean = multi_label_loss_sum(logits, target, loss, weights) / target.size(0);
    mean.backward();
    expect_close(mean.item<double>(), variant.at("loss"), variant.dump(), tolerance);
    expect_close(logits.grad(), tensor_of(variant.at("grad_logits")), variant.dump(), tolerance);
  }
}

RegressionLoss regression_loss(const nlohmann::json& variant) {
  const std::string kind = variant.at("kind");
  if (kind == "mse") return SquaredError{};
  if (kind == "l1") return AbsoluteError{};
  if (kind == "huber") return HuberLoss{variant.at("delta")};
  return SmoothL1Loss{variant.at("beta")};
}

void compare_regression(const RecordedCase& recorded) {
  const at::Tensor target = tensor_of(recorded.json.at("target"));
  for (const nlohmann::json& variant : recorded.json.at("variants")) {
    const at::Tensor outputs = tensor_of(recorded.json.at("outputs")).requires_grad_();
    const at::Tensor mean =
        regression_loss_sum(outputs, target, regression_loss(variant)) / target.size(0);
    mean.backward();
    expect_close(mean.item<double>(), variant.at("loss"), variant.dump());
    expect_close(outputs.grad(), tensor_of(variant.at("grad_outputs")), variant.dump());
  }
}

OrdinalHead head_of(const nlohmann::json& json) {
  return ordinal_head_named(json.at("kind").get<std::string>()).value();
}

/// Returns P(class > k) for the logits of the classes.
at::Tensor above_of(const at::Tensor& logits) {
  return 1 - logits.softmax(1).cumsum(1).narrow(1, 0, logits.size(1) - 1);
}

/// coral-pytorch may return probabilities that are not descending; ours are sorted.
void compare_ordinal(const RecordedCase& recorded) {
  const at::Tensor labels = integers_of(recorded.json.at("labels"));
  const std::int64_t classes = tensor_of(recorded.json.at("outputs")).size(1) + 1;
  for (const nlohmann::json& variant : recorded.json.at("variants")) {
    OrdinalLoss loss{.head = head_of(variant)};
    if (variant.contains("importance_weights"))
      loss.importance_weights = variant.at("importance_weights").get<std::vector<double>>();
    const at::Tensor outputs = tensor_of(recorded.json.at("outputs")).requires_grad_();
    const at::Tensor mean =
        ordinal_loss_sum(outputs, labels, loss.head, importance_weights_of(loss)) /
        ordinal_weight(labels, classes, loss.head);
    mean.backward();
    expect_close(mean.item<double>(), variant.at("loss"), variant.dump());
    expect_close(outputs.grad(), tensor_of(variant.at("grad_outputs")), variant.dump());
  }
  for (const nlohmann::json& head : recorded.json.at("heads")) {
    const at::Tensor outputs = tensor_of(recorded.json.at("outputs"));
    const at::Tensor logits = class_logits(outputs, head_of(head));
    const at::Tensor wanted =
        std::get<0>(tensor_of(head.at("above")).sort(/*dim=*/1, /*descending=*/true));
    expect_close(above_of(logits), wanted, head.at("kind"));
    EXPECT_TRUE(predicted_ranks(outputs, head_of(head)).equal(integers_of(head.at("predicted"))))
        << head.at("kind");
  }
  const auto layer = std::make_shared<CoralLayer>(/*in=*/3, classes - 1, at::kDouble);
  start_coral_biases(*layer);
  expect_close(layer->bias, tensor_of(recorded.json.at("start_biases")), "biases");
}

}  // namespace

std::vector<CaseKind> loss_cases() {
  return {number_kind("OrdinalLosses", "ordinal_loss", compare_ordinal),
          number_kind("RegressionLosses", "regression_loss", compare_regression),
          number_kind("MultiLabelLosses", "multi_label_loss", compare_multi_label),
          number_kind("Losses", "multiclass", compare_multiclass),
          number_kind("PairLosses", "binary", compare_binary),
          number_kind("Covariances", "vic", compare_variance_and_covariance),
          number_kind("InfoNce", "info_nce", compare_info_nce)};
}
