#include "stages/train/swa.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include <torch/nn/module.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/run_context.h"
#include "stages/artifact/loader.h"
#include "stages/numerics/running_statistics.h"
#include "stages/plan/recovery.h"
#include "stages/train/gradient.h"
#include "stages/train/step_execution.h"
#include "stages/train/training_kind.h"

namespace stages {

std::optional<SwaOptions> read_swa(runner::ConfigReader& reader, std::int64_t epochs) {
  const runner::Value* const value = reader.raw("swa");
  if (!value || value->is_null()) return std::nullopt;
  runner::ConfigReader& swa = reader.section("swa");
  SwaOptions options;
  double start = 0;
  swa.read("start", start);
  swa.read("learning_rate", options.learning_rate);
  swa.read("anneal_epochs", options.anneal_epochs);
  options.anneal = runner::choice<Anneal>(swa, "anneal",
                                          {{"cos", Anneal::kCosine}, {"linear", Anneal::kLinear}});
  options.start = static_cast<std::int64_t>(
      start < 1 ? std::floor(start * static_cast<double>(epochs)) : start);
  return options;
}

std::optional<SwaSchedule> swa_schedule(const std::optional<SwaOptions>& swa, double learning_rate,
                                        std::int64_t steps, std::int64_t epochs) {
  if (!swa || !swa->learning_rate) return std::nullopt;
  return SwaSchedule{.first_epoch = swa->start,
                     .first_step = steps / epochs * swa->start,
                     .factor = *swa->learning_rate / learning_rate,
                     .anneal_epochs = swa->anneal_epochs,
                     .anneal = swa->anneal};
}

void renew_statistics(const EpochToAverage& epoch) {
  const PreparedNetwork& network = epoch.execution.network();
  if (!running_statistics_of(network.module()).are_collected) return;
  const ScopedNewStatistics renewed(network.module());
  const PassProgress progress("renew statistics", epoch.samples.batches());
  std::int64_t batches = 0, samples = 0;
  while (const std::optional<Batch> batch = epoch.samples.next()) {
    if (epoch.can_stop && epoch.context.canceled()) throw runner::Canceled{};
    if (batch->units() < least_units(epoch.step)) continue;
    const Batch placed = network.placed(epoch.step.arrange(*batch, BatchUse::kTraining));
    see_in_training(epoch.step, network, placed, epoch.execution.plan(), epoch.key,
                    epoch.context.node().ranks);
    samples += batch->units();
    epoch.context.progress(progress.after(++batches, samples));
    if (epoch.context.node().smoke && batches == 2) break;
  }
}

void average_epoch(const EpochToAverage& epoch) {
  WeightAverage* const average = epoch.execution.average();
  average->include(epoch.number);
  const ScopedAverage averaged(average);
  renew_statistics(epoch);
}

void refuse_unknown_statistics(const torch::nn::Module& network, const std::string& option) {
  if (!running_statistics_of(network).has_unknown_layers) return;
  throw runner::StageError(runner::ErrorCode::kOptionConflict,
                           option +
                               " cannot recompute the running statistics of BatchNorm layers in "
                               "Python code, as averaged weights require")
      .at("/" + option)
      .with_help("use ema, which averages the statistics too, or a network without BatchNorm");
}

void check_averaged(const SwaOptions& swa, std::int64_t averaged, std::int64_t epochs,
                    std::int64_t batches) {
  const std::int64_t due = std::max<std::int64_t>(0, epochs - swa.start);
  const bool may_be_next = batches > 0 && epochs >= swa.start;  // stopped before validation
  if (averaged == due || (may_be_next && averaged == due + 1)) return;
  throw std::invalid_argument("it has averaged " + std::to_string(averaged) +
                              " epochs, but swa.start means that " + std::to_string(due) +
                              " of its " + std::to_string(epochs) + " epochs are averaged");
}

}  // namespace stages
