// The paths of torch's optimizers over about twenty steps, and how its GradScaler handles
// overflows.

#include <limits>
#include <optional>

#include "stages/train/optimizer.h"
#include "stages/train/step_execution.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

std::optional<OptimizerOptions> options_of(const std::string& name, Arguments& given) {
  if (name == "SGD") {
    return SgdOptions{.learning_rate = given.get<double>("lr"),
                      .momentum = given.get("momentum", 0.0),
                      .dampening = given.get("dampening", 0.0),
                      .nesterov = given.get("nesterov", false),
                      .weight_decay = given.get("weight_decay", 0.0)};
  }
  if (name == "Lion") {
    const auto betas = given.get("betas", std::vector<double>{0.9, 0.99});
    return LionOptions{.learning_rate = given.get<double>("lr"),
                       .beta1 = betas.at(0),
                       .beta2 = betas.at(1),
                       .weight_decay = given.get("weight_decay", 0.0)};
  }
  if (name == "Lamb") {
    const auto betas = given.get("betas", std::vector<double>{0.9, 0.999});
    EXPECT_TRUE(given.get<nlohmann::json>("max_grad_norm").is_null());
    return LambOptions{.learning_rate = given.get<double>("lr"),
                       .beta1 = betas.at(0),
                       .beta2 = betas.at(1),
                       .epsilon = given.get("eps", 1e-6),
                       .weight_decay = given.get("weight_decay", 0.01),
                       .trust_clip = given.get("trust_clip", false),
                       .always_adapt = given.get("always_adapt", false)};
  }
  if (name == "Adafactor") {
    AdafactorOptions options{.learning_rate = given.get<double>("lr"),
                             .beta2_decay = given.get("beta2_decay", -0.8),
                             .minimum_scale = 1e-3,
                             .clip_threshold = given.get("d", 1.0),
                             .weight_decay = given.get("weight_decay", 0.0)};
    if (given.has("eps")) {
      const auto both = given.get<std::vector<double>>("eps");
      options.epsilon = both.at(0);
      options.minimum_scale = both.at(1);
    }
    return options;
  }
  if (name == "Muon") {
    return MuonOptions{
        .learning_rate = given.get<double>("lr"),
        .momentum = given.get("momentum", 0.95),
        .nesterov = given.get("nesterov", true),
        .steps = given.get("ns_steps", std::int64_t{5}),
        .orthogonalization_epsilon = 1e-7,
        .matches_adamw = given.get("adjust_lr_fn", std::string("original")) == "match_rms_adamw",
        .weight_decay = given.get("weight_decay", 0.1)};
  }
  if (name != "Adam" && name != "AdamW") return std::nullopt;
  const bool decoupled = name == "AdamW";
  const auto betas = given.get("betas", std::vector<double>{0.9, 0.999});
  return AdamOptions{.learning_rate = given.get<double>("lr"),
                     .beta1 = betas.at(0),
                     .beta2 = betas.at(1),
                     .epsilon = given.get("eps", 1e-8),
                     .weight_decay = given.get("weight_decay", decoupled ? 0.01 : 0.0),
                     .amsgrad = given.get("amsgrad", false),
                     .decoupled = decoupled};
}

/// Compares x after each step, with the loss 0.5 c (x - t)² + 0.1 (x - t)³.
void compare_path(const RecordedCase& recorded, const OptimizerOptions& options,
                  at::ScalarType type) {
  const nlohmann::json& path = recorded.json.at(type == at::kDouble ? "f64" : "f32").at("x");
  const nlohmann::json& about = recorded.json.at("case");
  const at::Tensor curvature = tensor_of(recorded.json.at("curvature")).to(type);
  const at::Tensor target = tensor_of(recorded.json.at("target")).to(type);
  at::Tensor x = tensor_of(recorded.json.at("start")).to(type).requires_grad_();
  Optimizer optimizer(options, {{"x", x}});
  ASSERT_FALSE(path.empty());
  // Muon computes in bfloat16. Another summation order changes the rounding. This moves the path at
  // most as far as the rounding as a whole does, which is the recorded distance from the path in
  // float64.
  const double tolerance = recorded.json.value("rounding", type == at::kDouble ? 1e-12 : 2e-6);
  for (std::size_t step = 0; step < path.size(); ++step) {
    x.mutable_grad() = at::Tensor();
    (0.5 * curvature * (x - target).square() + 0.1 * (x - target).pow(3)).sum().backward();
    const at::Tensor scratch = optimizer.prepare();
    std::optional<at::Tensor> divisor;
    if (about.contains("clip"))
      divisor = clip_divisor(global_norm(optimizer.gradients()), about["clip"]);
    optimizer.set_rates({{.learning_rate = learning_rate(options), .momentum = {}}});
    optimizer.step({}, divisor, scratch);
    expect_close(x.detach().to(at::kDouble), tensor_of(path[step]), "step " + std::to_string(step),
                 tolerance);
  }
}

void compare_optimizer(const RecordedCase& recorded) {
  const std::string name = recorded.json.at("case").at("optimizer");
  Arguments given(recorded, name);
  const std::optional<OptimizerOptions> options = options_of(name, given);
  ASSERT_TRUE(options) << "no optimizer here is " << name;
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    SCOPED_TRACE(type == at::kDouble ? "in float64" : "in float32");
    compare_path(recorded, *options, type);
  }
}

void compare_clipping(const RecordedCase& recorded) {
  const std::string mode = recorded.json.at("case").at("mode");
  Arguments given(recorded, mode);
  GradientClip clip;
  if (mode == "value") clip.value = given.get<double>("clip_value");
  else clip.adaptive = {given.get<double>("clip_factor"), given.get<double>("eps"), false};
  for (const nlohmann::json& one : recorded.json.at("parameters")) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      at::Tensor weight = tensor_of(one.at("weight")).to(type).requires_grad_();
      weight.mutable_grad() = tensor_of(one.at("gradient")).to(type);
      clip_each({weight}, clip);
      expect_close(weight.grad().to(at::kDouble),
                   tensor_of(one.at(type == at::kDouble ? "f64" : "f32")), mode,
                   type == at::kDouble ? 1e-12 : 2e-6);
    }
  }
}

/// A parameter with the gradient (1, -1). The second element overflows at some steps: 1 to
/// infinity, 2 to NaN.
void compare_scaler(const RecordedCase& recorded) {
  Arguments given(recorded, "GradScaler");
  GradScaler scaler({.initial_scale = given.get("init_scale", 65536.0),
                     .growth_factor = given.get("growth_factor", 2.0),
                     .backoff_factor = given.get("backoff_factor", 0.5),
                     .growth_interval = given.get("growth_interval", std::int64_t{2000})},
                    at::kCPU);
  at::Tensor x = torch::ones(2, torch::requires_grad());
  Optimizer optimizer(SgdOptions{.learning_rate = 0.5}, {{"x", x}});
  const nlohmann::json& overflows = recorded.json.at("case").at("overflow");
  ASSERT_FALSE(overflows.empty());
  for (std::size_t step = 0; step < overflows.size(); ++step) {
    x.mutable_grad() = at::Tensor();
    ((x * torch::tensor({1.0F, -1.0F})).sum() * scaler.scale()).backward();
    const int overflow = overflows[step];
    if (overflow)
      x.mutable_grad()[1] = overflow == 1 ? std::numeric_limits<float>::infinity() : std::nanf("");
    optimizer.prepare();
    const at::Tensor found = scaler.unscale(optimizer.gradients());
    EXPECT_EQ(found.item<float>(), overflow ? 1.0F : 0.0F) << step;
    optimizer.set_rates({{.learning_rate = 0.5, .momentum = {}}});
    optimizer.step(found);
    scaler.update(found);
    const nlohmann::json& expected = recorded.json.at("trace").at(step);
    EXPECT_EQ(scaler.scale().item<float>(), expected.at("scale").get<float>()) << step;
    EXPECT_EQ(scaler.state().at("growth_tracker").item<int>(), expected.at("growth_tracker"))
        << step;
    EXPECT_TRUE(x.equal(torch::tensor(expected.at("parameter").get<std::vector<float>>()))) << step;
  }
}

}  // namespace

std::vector<CaseKind> optimizer_cases() {
  return {number_kind("Optimizers", "optimizer", compare_optimizer),
          number_kind("ClippedGradients", "clip", compare_clipping),
          number_kind("GradScalers", "scaler", compare_scaler)};
}
