#include "stages/train/trainer_options.h"

#include <string>
#include <utility>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "stages/train/schedule_options.h"

namespace stages {
namespace {

/// The loss is better the lower it is, a score the higher.
bool read_higher_is_better(runner::ConfigReader& reader, std::span<const std::string_view> scores) {
  std::vector<std::pair<std::string_view, bool>> monitors = {{"loss", false}};
  for (const std::string_view score : scores) monitors.emplace_back(score, true);
  return runner::choice<bool>(reader, "monitor", monitors);
}

}  // namespace

TrainerOptions read_trainer_options(runner::ConfigReader& reader, std::span<const std::string_view> scores,
                                    std::string_view batch_option, const std::vector<NetworkPart>& parts) {
  TrainerOptions options;
  reader.read("epochs", options.epochs);
  options.batch_option = batch_option;
  reader.read(batch_option, options.batch_size);
  reader.read("gradient_clip_norm", options.gradient_clip_norm);
  options.average = read_weight_average(reader);
  reader.read("validate_every", options.validate_every);
  reader.read("patience", options.patience);
  reader.read("minimum_improvement", options.minimum_improvement);
  reader.read("monitor", options.monitor);
  options.higher_is_better = read_higher_is_better(reader, scores);
  options.keep =
      runner::choice<Keep>(reader, "keep", {{"auto", Keep::kAuto}, {"best", Keep::kBest}, {"last", Keep::kLast}});
  reader.read("log_every", options.log_every);
  options.checkpoint = read_save_options(reader.section("checkpoint"));
  options.optimizer = read_optimizer(reader.section("optimizer"));
  options.schedule = read_schedule(reader.section("schedule"));
  options.parameter_groups = read_parameter_groups(reader, parts);
  return options;
}

std::vector<std::string> notes_of(const TrainerOptions& options) {
  if (!options.patience || options.keep != Keep::kLast) return {};
  return {"keep: last, with patience " + std::to_string(*options.patience) +
          ": a training that stops early keeps its last weights, which are that many validations past its best ones; "
          "keep: best keeps those"};
}

void check_without_validation(const TrainerOptions& options) {
  const auto refuse = [](const char* option, const std::string& what, const std::string& instead) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict, what + ", and there is none")
        .at(option)
        .with_help(
            "give the data a part for it: a folder 'val' where it has a folder 'train', else a share, such as "
            "data.split={train: 0.7, validation: 0.1, test: 0.2}; or set " +
            instead);
  };
  if (options.patience) refuse("/patience", "patience needs validation data", "patience: null");
  if (std::holds_alternative<PlateauSchedule>(options.schedule))
    refuse("/schedule", "the schedule plateau needs validation data", "another schedule");
  if (options.keep == Keep::kBest) refuse("/keep", "keep: best needs validation data", "keep: last");
}

}  // namespace stages
