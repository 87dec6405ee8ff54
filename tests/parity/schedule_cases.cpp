// Learning rate schedules, compared step by step with torch and transformers.

#include <optional>

#include "stages/train/schedule.h"
#include "tests/parity/recorded_numbers.h"

namespace {

using namespace stages;

/// A schedule with the length that was passed to the library.
struct Timed {
  Schedule schedule;
  std::int64_t steps = 1;
  std::optional<SwaSchedule> swa = {};
};

OneCycleSchedule one_cycle(Arguments& given) {
  return {.pct_start = given.get("pct_start", 0.3),
          .div_factor = given.get("div_factor", 25.0),
          .final_div_factor = given.get("final_div_factor", 1e4),
          .anneal_strategy = given.get("anneal_strategy", std::string("cos")) == "linear"
                                 ? Anneal::kLinear
                                 : Anneal::kCosine,
          .three_phase = given.get("three_phase", false),
          .cycle_momentum = given.get("cycle_momentum", true),
          .base_momentum = given.get("base_momentum", 0.85),
          .max_momentum = given.get("max_momentum", 0.95)};
}

PlateauSchedule plateau(Arguments& given) {
  return {.factor = given.get("factor", 0.1),
          .patience = given.get("patience", std::int64_t{10}),
          .threshold = given.get("threshold", 1e-4),
          .relative = given.get("threshold_mode", std::string("rel")) == "rel",
          .cooldown = given.get("cooldown", std::int64_t{0}),
          .min_learning_rate = given.get("min_lr", 0.0)};
}

/// Our equivalent of the library's schedule `name`; nullopt if there is none.
std::optional<Timed> timed(const std::string& name, Arguments& given, double learning_rate) {
  const auto whole = [&](const char* argument) { return given.get<std::int64_t>(argument); };
  if (name == "CosineAnnealingLR")
    return Timed{CosineSchedule{given.get("eta_min", 0.0)}, whole("T_max")};
  if (name == "ExponentialLR") return Timed{ExponentialSchedule{given.get<double>("gamma")}};
  if (name == "StepLR") return Timed{StepSchedule{whole("step_size"), given.get("gamma", 0.1)}};
  if (name == "MultiStepLR") {
    return Timed{MultiStepSchedule{given.get<std::vector<std::int64_t>>("milestones"),
                                   given.get("gamma", 0.1)}};
  }
  if (name == "CosineAnnealingWarmRestarts") {
    return Timed{CosineRestartsSchedule{whole("T_0"), given.get("T_mult", std::int64_t{1}),
                                        given.get("eta_min", 0.0)}};
  }
  if (name == "OneCycleLR") {
    EXPECT_EQ(given.get<double>("max_lr"), learning_rate);
    return Timed{one_cycle(given), whole("total_steps")};
  }
  if (name == "transformers.get_linear_schedule_with_warmup") {
    return Timed{
        WarmupLinearSchedule{.warmup_steps = whole("num_warmup_steps"), .warmup_fraction = {}},
        whole("num_training_steps")};
  }
  if (name == "transformers.get_cosine_schedule_with_warmup") {
    return Timed{WarmupCosineSchedule{.warmup_steps = whole("num_warmup_steps"),
                                      .warmup_fraction = {},
                                      .num_cycles = given.get("num_cycles", 0.5)},
                 whole("num_training_steps")};
  }
  if (name == "transformers.get_cosine_with_hard_restarts_schedule_with_warmup") {
    return Timed{WarmupCosineRestartsSchedule{.warmup_steps = whole("num_warmup_steps"),
                                              .warmup_fraction = {},
                                              .num_cycles = whole("num_cycles")},
                 whole("num_training_steps")};
  }
  if (name == "transformers.get_constant_schedule_with_warmup") {
    return Timed{
        WarmupConstantSchedule{.warmup_steps = whole("num_warmup_steps"), .warmup_fraction = {}}};
  }
  if (name == "transformers.get_inverse_sqrt_schedule") {
    WarmupInverseSqrtSchedule schedule{
        .warmup_steps = whole("num_warmup_steps"), .warmup_fraction = {}, .timescale = {}};
    if (given.has("timescale")) schedule.timescale = whole("timescale");
    return Timed{schedule};
  }
  if (name == "transformers.get_polynomial_decay_schedule_with_warmup") {
    return Timed{WarmupPolynomialSchedule{.warmup_steps = whole("num_warmup_steps"),
                                          .warmup_fraction = {},
                                          .power = given.get("power", 1.0),
                                          .min_learning_rate = given.get("lr_end", 1e-7)},
                 whole("num_training_steps")};
  }
  if (name == "timm.CosineLRScheduler") {
    return Timed{CosineCyclesSchedule{.first_period = whole("t_initial"),
                                      .period_factor = given.get("cycle_mul", 1.0),
                                      .peak_factor = given.get("cycle_decay", 1.0),
                                      .cycle_limit = given.get("cycle_limit", std::int64_t{1}),
                                      .min_learning_rate = given.get("lr_min", 0.0),
                                      .warmup_epochs = given.get("warmup_t", std::int64_t{0}),
                                      .warmup_learning_rate = given.get("warmup_lr_init", 0.0),
                                      .warmup_prefix = given.get("warmup_prefix", false),
                                      .k_decay = given.get("k_decay", 1.0)}};
  }
  if (name == "warmup_cosine") {  // LinearLR, then CosineAnnealingLR
    const std::int64_t warmup = whole("warmup");
    return Timed{WarmupCosineSchedule{.warmup_steps = warmup,
                                      .warmup_fraction = {},
                                      .start_factor = given.get<double>("start_factor"),
                                      .min_learning_rate = given.get("eta_min", 0.0)},
                 warmup + whole("T_max")};
  }
  if (name == "SWALR") {  // ExponentialLR, then SWALR from epoch `start` on
    return Timed{ExponentialSchedule{given.get<double>("gamma")}, 1,
                 SwaSchedule{.first_epoch = whole("start"),
                             .factor = given.get<double>("swa_lr") / learning_rate,
                             .anneal_epochs = whole("anneal_epochs"),
                             .anneal = given.get<std::string>("anneal_strategy") == "linear"
                                           ? Anneal::kLinear
                                           : Anneal::kCosine}};
  }
  if (name == "ReduceLROnPlateau") return Timed{plateau(given)};
  return std::nullopt;
}

/// Every step is an epoch. After each, a new schedule continues from the state that the previous
/// one would have saved.
void compare_schedule(const RecordedCase& recorded) {
  const nlohmann::json& about = recorded.json.at("case");
  const nlohmann::json& rates = recorded.json.at("rates");
  const std::string name = about.at("schedule");
  const double learning_rate = about.at("lr");
  Arguments given(recorded, name);
  const std::optional<Timed> ours = timed(name, given, learning_rate);
  ASSERT_TRUE(ours) << "no schedule here is " << name;
  const bool higher_is_better = std::holds_alternative<PlateauSchedule>(ours->schedule) &&
                                given.get("mode", std::string("min")) == "max";
  const nlohmann::json metric = about.value("metric", nlohmann::json::array());
  const nlohmann::json momentum = recorded.json.value("beta1", nlohmann::json::array());
  ASSERT_FALSE(rates.empty());
  nlohmann::json saved;
  for (std::size_t step = 0; step < rates.size(); ++step) {
    LearningRates running(ours->schedule, {learning_rate}, ours->steps, higher_is_better,
                          ours->swa);
    if (!saved.is_null()) running.load_state(saved);
    const auto now = static_cast<std::int64_t>(step);
    const Rates at = running.at(now, now).front();
    const std::string place = "step " + std::to_string(step);
    expect_close(at.learning_rate, rates[step], place, 1e-12, 1e-14 * learning_rate);
    EXPECT_EQ(at.momentum.has_value(), !momentum.empty()) << place;
    if (at.momentum && step < momentum.size())
      expect_close(*at.momentum, momentum[step], place + ", momentum");
    if (step < metric.size()) running.observe(metric[step]);
    saved = running.state();
  }
}

}  // namespace

std::vector<CaseKind> schedule_cases() {
  return {number_kind("Schedules", "schedule", compare_schedule)};
}
