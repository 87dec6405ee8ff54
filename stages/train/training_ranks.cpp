#include "stages/train/training_ranks.h"

#include <stdexcept>
#include <string>

#include "runner/shared/disk/digest.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/divided_reading.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/step_plan.h"

namespace stages {
namespace {

/// Returns a summary that lets ranks detect that their machines have different data.
std::string summary_of(const Dataset& data) {
  runner::Digest names;
  const std::int64_t size = data.describe().size;
  for (std::int64_t i = 0; i < size; ++i) names.update(data.sample_name(i) + '\n');
  return std::to_string(size) + " samples, digest of their names " + names.finish().substr(0, 16);
}

}  // namespace

void TrainingRanks::compare(std::int64_t steps_done) const {
  RankGroup* const group = group_of(context_.node().ranks);
  compare_data(group, *data_.train, data_.validation.get());
  if (group) group->require_same("the checkpoints", "step " + std::to_string(steps_done));
}

PartialReading TrainingRanks::reading(bool is_first_epoch) const {
  const runner::RankOfRun& ranks = context_.node().ranks;
  const auto* remarking = dynamic_cast<const RemarkingDataset*>(data_.train.get());
  const bool reports = is_first_epoch && remarking && remarking->needs_every_sample();
  if (!group_of(ranks) || reports) return {};
  return divided_reading(ranks, units_in_group(step_),
                         step_.reads_whole_batch() ? RowsOfOthers::kAll : RowsOfOthers::kSmall);
}

void TrainingRanks::begin_step(std::int64_t step) const {
  begin_part("step " + std::to_string(step), context_);
}

TrainingRanks::Request TrainingRanks::agreed(Request own) const {
  RankGroup* const group = group_of(context_.node().ranks);
  return group ? Request(group->largest(static_cast<std::int64_t>(own))) : own;
}

void TrainingRanks::end_after_others() const {
  try {
    if (RankGroup* const group = group_of(context_.node().ranks)) group->wait_for_all();
  } catch (const runner::StageError&) {
    if (context_.canceled()) throw runner::Canceled{};
    throw;
  }
  throw std::logic_error("a rank continues although it was asked to stop");
}

void compare_data(RankGroup* group, const Dataset& train, const Dataset* validation) {
  if (!group) return;
  group->require_same("the training data", summary_of(train));
  if (validation) group->require_same("the validation data", summary_of(*validation));
}

void begin_part(const std::string& part, const runner::RunContext& context) {
  if (RankGroup* const group = group_of(context.node().ranks))
    group->begin(part + " of '" + context.node().folder.filename().string() + "'");
}

bool is_rank_lost(const std::exception& error) {
  const auto* refused = dynamic_cast<const runner::StageError*>(&error);
  return refused && refused->code == runner::ErrorCode::kRankLost;
}

}  // namespace stages
