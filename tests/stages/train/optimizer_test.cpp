#include "stages/train/optimizer.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "stages/train/step_execution.h"
#include "tests/support/on_test_device.h"
#include "tests/support/optimizer_rules.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

using nlohmann::json;

constexpr Rates kTenth{.learning_rate = 0.1, .momentum = {}};
constexpr AdamOptions kAdamW = adamw(0.1);

TEST(Optimizer, StepDoesNotAllocate) {
  at::Tensor x = torch::ones(1000, here().requires_grad(true));
  x.mutable_grad() = torch::ones(1000, here());
  Optimizer optimizer(kAdamW, {{"x", x}});
  optimizer.prepare();
  const void* weights = x.data_ptr();
  optimizer.set_rates({kTenth});
  optimizer.step();
  const void* mean = optimizer.state().at("x.mean").data_ptr();
  optimizer.prepare();
  optimizer.set_rates({kTenth});
  optimizer.step();
  EXPECT_EQ(optimizer.state().at("x.mean").data_ptr(), mean);
  EXPECT_EQ(x.data_ptr(), weights);
}

TEST(Optimizer, ParameterWithoutGradientIsUnchanged) {
  at::Tensor x = torch::ones(3, here().requires_grad(true)),
             y = torch::ones(3, here().requires_grad(true));
  Optimizer optimizer(kAdamW, {{"x", x}, {"y", y}});
  x.mutable_grad() = torch::ones(3, here());
  optimizer.prepare();
  optimizer.set_rates({kTenth});
  optimizer.step();
  EXPECT_TRUE(y.equal(torch::ones(3, here())));  // weight decay would have shrunk it
  EXPECT_FALSE(optimizer.state().contains("y.age"));
  y.mutable_grad() = torch::ones(3, here());
  optimizer.prepare();
  optimizer.set_rates({kTenth});
  optimizer.step();
  EXPECT_EQ(optimizer.state().at("x.age").item<double>(), 2);
  EXPECT_EQ(optimizer.state().at("y.age").item<double>(), 1);
}

TEST(Optimizer, LateParameterStartsItsMomentumWithItsFirstGradient) {
  at::Tensor x = torch::zeros(1, here().requires_grad(true)),
             y = torch::zeros(1, here().requires_grad(true));
  Optimizer optimizer(SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5},
                      {{"x", x}, {"y", y}});
  x.mutable_grad() = torch::ones(1, here());
  optimizer.prepare();
  optimizer.set_rates({kTenth});
  optimizer.step();
  y.mutable_grad() = torch::ones(1, here());
  optimizer.prepare();
  optimizer.set_rates({kTenth});
  optimizer.step();
  EXPECT_FLOAT_EQ(optimizer.state().at("y.momentum").item<float>(), 1.0F);  // not 0.5
  EXPECT_FLOAT_EQ(optimizer.state().at("x.momentum").item<float>(), 0.9F + 0.5F);
}

TEST(Optimizer, DivisorDividesTheGradientsFirst) {
  for (const OptimizerOptions& options : kEveryRule) {
    for (const at::ScalarType type : {torch::kFloat, torch::kDouble}) {
      at::Tensor x = torch::ones(41, here().dtype(type)).requires_grad_(),
                 y = torch::ones(41, here().dtype(type)).requires_grad_();
      Optimizer divided(options, {{"x", x}}), plain(options, {{"y", y}});
      for (int step = 0; step < 3; ++step) {
        const at::Tensor gradient = torch::linspace(-1, 1, 41, here().dtype(type)) + step,
                         three = torch::full({}, 3.7, here().dtype(type));
        x.mutable_grad() = gradient.clone();
        y.mutable_grad() = gradient / three;
        const at::Tensor scratch = divided.prepare(), other = plain.prepare();
        divided.set_rates({kTenth});
        divided.step({}, three, scratch);
        plain.set_rates({kTenth});
        plain.step({}, {}, other);
      }
      EXPECT_TRUE(x.equal(y)) << type;
    }
  }
}

TEST(Optimizer, EachGroupFollowsItsOwnRule) {
  const auto with = [](double decay) {
    return std::vector<OptimizerOptions>{
        SgdOptions{.learning_rate = 9, .momentum = 0.9, .weight_decay = decay},
        AdamOptions{.learning_rate = 9,
                    .beta1 = 0.9,
                    .beta2 = 0.99,
                    .epsilon = 1e-8,
                    .weight_decay = decay}};
  };
  constexpr Rates kHalf{.learning_rate = 0.5, .momentum = {}};
  for (const std::size_t rule : {0, 1}) {
    std::vector<at::Tensor> parameters;
    for (int i = 0; i < 4; ++i)
      parameters.push_back(torch::linspace(1, 2, 40, here()).requires_grad_());
    const auto& [x, y, x_alone, y_alone] =
        std::tie(parameters[0], parameters[1], parameters[2], parameters[3]);
    Optimizer both({{.name = "", .optimizer = with(0.1)[rule], .parameters = {{"x", x}}},
                    {.name = "y", .optimizer = with(0)[rule], .parameters = {{"y", y}}}});
    Optimizer first(with(0.1)[rule], {{"x", x_alone}}), second(with(0)[rule], {{"y", y_alone}});
    for (int step = 0; step < 3; ++step) {
      for (at::Tensor& parameter : parameters)
        parameter.mutable_grad() = (parameter.detach() * 3 + step).cos();
      for (Optimizer* optimizer : {&both, &first, &second}) optimizer->prepare();
      both.set_rates({kTenth, kHalf});
      both.step();
      first.set_rates({kTenth});
      first.step();
      second.set_rates({kHalf});
      second.step();
    }
    EXPECT_TRUE(x.equal(x_alone)) << rule;
    EXPECT_TRUE(y.equal(y_alone)) << rule;
    EXPECT_FALSE(x.equal(y)) << rule;
    EXPECT_EQ(both.state().size(), first.state().size() + second.state().size());
  }
}

TEST(Optimizer, SkippedStepChangesNothing) {
  for (const OptimizerOptions& options : kEveryRule) {
    at::Tensor x = torch::ones(40, here().requires_grad(true));
    x.mutable_grad() = torch::full(40, std::nan(""), here());
    Optimizer optimizer(options, {{"x", x}});
    const at::Tensor scratch = optimizer.prepare();
    optimizer.set_rates({kTenth});
    optimizer.step(torch::ones({}, here()), {}, scratch);
    EXPECT_TRUE(x.equal(torch::ones(40, here())));
    for (const auto& [name, tensor] : optimizer.state())
      EXPECT_TRUE(tensor.equal(torch::zeros_like(tensor))) << name;
    x.mutable_grad() = torch::ones(40, here());
    optimizer.set_rates({kTenth});
    optimizer.step(torch::zeros({}, here()), {}, scratch);
    EXPECT_FALSE(x.equal(torch::ones(40, here())));
  }
}

TEST(Optimizer, SkippedFirstStepLeavesNoTrace) {
  const auto compare = [](const OptimizerOptions& options, const std::vector<std::int64_t>& sizes) {
    at::Tensor x = torch::ones(sizes, here().requires_grad(true)),
               y = torch::ones(sizes, here().requires_grad(true));
    Optimizer skipping(options, {{"x", x}}), plain(options, {{"x", y}});
    const at::Tensor one = torch::ones({}, here()), zero = torch::zeros({}, here());
    for (int skipped = 0; skipped < 2; ++skipped) {
      x.mutable_grad() = torch::full(sizes, std::nan(""), here());
      const at::Tensor scratch = skipping.prepare();
      skipping.set_rates({kTenth});
      skipping.step(one, {}, scratch);
      EXPECT_EQ(skipping.state().size(), 0);
      EXPECT_TRUE(x.equal(y));
    }
    for (int step = 0; step < 3; ++step) {
      x.mutable_grad() = torch::linspace(-1, 1, 40, here()).view(sizes) + step;
      y.mutable_grad() = x.grad().clone();
      const at::Tensor scratch = skipping.prepare(), other = plain.prepare();
      skipping.set_rates({kTenth});
      skipping.step(zero, {}, scratch);
      plain.set_rates({kTenth});
      plain.step({}, {}, other);
      EXPECT_TRUE(x.equal(y));
      ASSERT_EQ(skipping.state().size(), plain.state().size());
      for (const auto& [name, tensor] : plain.state())
        EXPECT_TRUE(skipping.state().at(name).equal(tensor)) << name;
    }
  };
  int rule = 0;
  for (const OptimizerOptions& options : kEveryRule) {
    SCOPED_TRACE("rule " + std::to_string(rule++));
    compare(options, {40});
    compare(options, {5, 8});
    compare(options, {5, 2, 2, 2});
  }
}

TEST(Optimizer, LaterSkippedStepLeavesNoTrace) {
  int rule = 0;
  for (const OptimizerOptions& options : kEveryRule) {
    SCOPED_TRACE("rule " + std::to_string(rule++));
    at::Tensor x = torch::linspace(-1, 2, 40, here()).view({5, 8}).requires_grad_(),
               y = x.detach().clone().requires_grad_();
    Optimizer skipping(options, {{"x", x}}), plain(options, {{"x", y}});
    for (int step = 0; step < 3; ++step) {
      x.mutable_grad() = torch::linspace(-1, 1, 40, here()).view({5, 8}) + step;
      y.mutable_grad() = x.grad().clone();
      skipping.step(torch::zeros({}, here()), {}, skipping.prepare());
      plain.step({}, {}, plain.prepare());
      x.mutable_grad() = torch::full({5, 8}, std::numeric_limits<float>::infinity(), here());
      skipping.step(torch::ones({}, here()), {}, skipping.prepare());
      EXPECT_TRUE(x.equal(y));
      for (const auto& [name, tensor] : plain.state())
        EXPECT_TRUE(skipping.state().at(name).equal(tensor)) << name;
    }
  }
}

TEST(Optimizer, StateSavedAfterASkippedFirstStepIsFresh) {
  at::Tensor x = torch::ones(1, here().requires_grad(true));
  const SgdOptions options{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5};
  Optimizer before(options, {{"x", x}}), after(options, {{"x", x}});
  x.mutable_grad() = torch::full(1, std::nan(""), here());
  before.prepare();
  before.set_rates({kTenth});
  before.step(torch::ones({}, here()));
  after.load_state(before.state());
  x.mutable_grad() = torch::ones(1, here());
  after.prepare();
  after.set_rates({kTenth});
  after.step();
  EXPECT_FLOAT_EQ(after.state().at("x.momentum").item<float>(), 1.0F);  // not 0.5
}

TEST(Optimizer, UsesTheRatesInItsOptionsByDefault) {
  at::Tensor x = torch::zeros(1, here().requires_grad(true));
  Optimizer optimizer(SgdOptions{.learning_rate = 0.5}, {{"x", x}});
  x.mutable_grad() = torch::ones(1, here());
  optimizer.prepare();
  optimizer.step();
  EXPECT_FLOAT_EQ(x.item<float>(), -0.5F);
  optimizer.set_rates({{.learning_rate = 0.25, .momentum = {}}});
  optimizer.step();
  optimizer.step();
  EXPECT_FLOAT_EQ(x.item<float>(), -1.0F);
}

TEST(Optimizer, ScheduledMomentumReplacesTheConfiguredOne) {
  at::Tensor x = torch::ones(1, here().requires_grad(true));
  Optimizer optimizer(kAdamW, {{"x", x}});
  x.mutable_grad() = torch::ones(1, here());
  optimizer.prepare();
  optimizer.set_rates({{.learning_rate = 0.1, .momentum = 0.75}});
  optimizer.step();
  EXPECT_FLOAT_EQ(optimizer.state().at("x.mean").item<float>(), 0.25F);
}

/// Two parameters with an optimizer; the second gets its first gradient only at step 3.
struct LateGradient {
  at::Tensor x = torch::linspace(-1, 1, 37, here()).requires_grad_(),
             y = torch::linspace(1, 2, 5, here()).requires_grad_();
  OptimizerOptions options;
  Optimizer optimizer{options, {{"x", x}, {"y", y}}};
  explicit LateGradient(const OptimizerOptions& rule) : options(rule) {}

  void run(std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step < to; ++step) {
      x.mutable_grad() = (x.detach() * 3 + step).cos();
      if (step >= 3) y.mutable_grad() = (y.detach() * 2 - step).sin();
      const at::Tensor scratch = optimizer.prepare();
      optimizer.set_rates({{.learning_rate = 0.1, .momentum = {}}});
      optimizer.step({}, {}, scratch);
    }
  }
  /// Returns a copy that continues with the same parameters and optimizer state.
  LateGradient continued() const {
    LateGradient other(options);
    const torch::NoGradGuard no_graph;
    other.x.copy_(x);
    other.y.copy_(y);
    other.optimizer.load_state(optimizer.state());
    return other;
  }
};

TEST(Optimizer, LoadedStateContinuesBitForBit) {
  int rule = 0;
  for (const OptimizerOptions& options : kEveryRule) {
    for (const std::int64_t saved : {0, 1, 2, 4}) {
      LateGradient whole(options), part(options);
      whole.run(0, 8);
      part.run(0, saved);
      LateGradient rest = part.continued();
      part.run(saved, 5);  // the loaded state is a copy
      rest.run(saved, 8);
      EXPECT_TRUE(rest.x.equal(whole.x)) << rule << " saved after " << saved;
      EXPECT_TRUE(rest.y.equal(whole.y)) << rule << " saved after " << saved;
      EXPECT_EQ(rest.optimizer.state().size(), whole.optimizer.state().size());
      for (const auto& [name, tensor] : whole.optimizer.state())
        EXPECT_TRUE(rest.optimizer.state().at(name).equal(tensor)) << rule << name;
    }
    ++rule;
  }
}

TEST(Optimizer, StateIsEmptyBeforeTheFirstStep) {
  // SGD must start its momentum with the undamped first gradient, so there is no state of zeros.
  LateGradient saved(SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.5});
  saved.x.mutable_grad() = torch::ones(37, here());
  saved.optimizer.prepare();
  EXPECT_EQ(saved.optimizer.state().size(), 0);
}

TEST(Optimizer, LoadedStateReplacesTheExistingState) {
  LateGradient one(kAdamW), other(kAdamW);
  one.run(0, 2);
  other.run(0, 5);
  other.optimizer.load_state(one.optimizer.state());
  EXPECT_EQ(other.optimizer.state().size(), 3);  // the state of y is gone
  EXPECT_EQ(other.optimizer.state().at("x.age").item<double>(), 2);
}

TEST(Optimizer, StateOfTheWrongFormIsRejectedAndChangesNothing) {
  LateGradient training(kAdamW);
  training.run(0, 2);
  const NamedTensors good = training.optimizer.state();
  const auto refusal = [&](const NamedTensors& state) -> std::string {
    try {
      training.optimizer.load_state(state);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "loaded";
  };
  const auto with = [&](const char* name, const at::Tensor& tensor) {
    NamedTensors state = good;
    state.set(name, tensor);
    return refusal(state);
  };
  EXPECT_EQ(refusal({{"x.mean", good.at("x.mean")}, {"x.age", good.at("x.age")}}),
            "the optimizer's state has no 'x.square'");
  EXPECT_EQ(with("y.mean", torch::zeros(5, here())), "the optimizer's state has no 'y.square'");
  EXPECT_EQ(with("x.mean", torch::zeros({1, 37}, here())),
            "the optimizer's state has a 'x.mean' of shape [1, 37], not [37]");
  EXPECT_EQ(with("x.age", torch::zeros(1, here())),
            "the optimizer's state has a 'x.age' of shape [1], not []");
  EXPECT_EQ(with("x.square", torch::zeros(37, here().dtype(torch::kDouble))),
            "the optimizer's state has a 'x.square' of type Double, not Float");
  EXPECT_EQ(with("z.mean", torch::zeros(3, here())),
            "the optimizer's state has a 'z.mean' that belongs to no parameter");
  EXPECT_EQ(with("x.momentum", torch::zeros(37, here())),
            "the optimizer's state has a 'x.momentum' that belongs to no parameter");
  EXPECT_EQ(training.optimizer.state().at("x.age").item<double>(), 2);
  LateGradient plain(SgdOptions{.learning_rate = 0.1});
  EXPECT_THROW(plain.optimizer.load_state(good), std::invalid_argument);
}

TEST(GradientNorm, SmallGradientsAreNotScaled) {
  const std::vector<at::Tensor> gradients = {torch::tensor({3.0, 0.0}, here()),
                                             torch::tensor({4.0}, here())};
  const at::Tensor norm = global_norm(gradients);
  EXPECT_DOUBLE_EQ(norm.item<double>(), 5.0);
  EXPECT_EQ(clip_divisor(norm, 6.0).item<double>(), 1.0);
  EXPECT_FLOAT_EQ(clip_divisor(norm, 2.0).item<float>(), (5.0F + 1e-6F) / 2.0F);
}

/// Returns the errors of reading `json` as an optimizer.
runner::Diagnostics errors_of(const std::string& text) {
  const runner::Value value =
      stage_options("train/optimizer/" + json::parse(text)["kind"].get<std::string>(), text);
  runner::ConfigReader reader(value, "/train/optimizer");
  read_optimizer(reader);
  return reader.finish();
}

TEST(OptimizerOptions, EveryOptionIsRead) {
  for (const char* kind : {"sgd", "adam", "adamw", "lion", "lamb", "adafactor", "muon"})
    EXPECT_TRUE(errors_of(json{{"kind", kind}}.dump()).empty()) << kind;
}

}  // namespace
}  // namespace stages
