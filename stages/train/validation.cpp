#include "stages/train/validation.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "runner/shared/value/parse_json.h"
#include "stages/plan/recovery.h"
#include "stages/plan/repetition.h"
#include "stages/ranks/gathered_rows.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/step_plan.h"

namespace stages {
namespace {

NamedTensors encode(const TrainingStep& step, torch::nn::Module& network, const Batch& batch,
                    std::int64_t micro_batch) {
  if (micro_batch == 0 || micro_batch >= batch.units()) return step.encode(network, batch);
  EncodedParts parts;
  Repetition repetition;
  for (std::int64_t begin = 0; begin < batch.units(); begin += micro_batch) {
    const std::int64_t end = std::min(begin + micro_batch, batch.units());
    parts.add(
        repetition.next(end - begin, [&] { return step.encode(network, batch.part(begin, end)); }));
  }
  return parts.join();
}

/// Returns the samples of the batches that this rank measures: all of them if it is the only rank.
SampleOrder own_batches(SampleOrder order, std::int64_t size, std::int64_t batches,
                        const runner::RankOfRun& ranks) {
  if (ranks.size == 1) return order;
  std::vector<std::int64_t> own;
  for (std::int64_t batch = ranks.rank; batch < batches; batch += ranks.size) {
    const std::int64_t end = std::min((batch + 1) * size, order.size());
    for (std::int64_t i = batch * size; i < end; ++i) own.push_back(order[i]);
  }
  return own;
}

/// Returns the means over the batches of all ranks. Rank 0 has measured at least one batch.
Means over_all(const Means& own, RankGroup& group) {
  nlohmann::ordered_json names = {nlohmann::ordered_json::array(), nlohmann::ordered_json::array()};
  for (const auto& [name, mean] : own.terms) names[0].push_back(name);
  for (const auto& [name, mean] : own.scores) names[1].push_back(name);
  names = runner::parse_json(group.text_of_first(names.dump()));
  const std::size_t terms = names[0].size(), scores = names[1].size();
  at::Tensor sums = torch::zeros({static_cast<std::int64_t>(2 + terms + scores)}, torch::kDouble);
  auto* const sum = sums.mutable_data_ptr<double>();
  sum[0] = own.weight;
  sum[1] = own.units;
  for (std::size_t i = 0; i < own.terms.size(); ++i) sum[2 + i] = own.terms[i].second * own.weight;
  for (std::size_t i = 0; i < own.scores.size(); ++i)
    sum[2 + terms + i] = own.scores[i].second * own.units;
  group.sum(sums);
  Means all{.weight = sum[0], .units = sum[1]};
  for (std::size_t i = 0; i < terms; ++i) {
    all.terms.emplace_back(names[0][i].get<std::string>(), sum[2 + i] / all.weight);
    all.loss += all.terms.back().second;
  }
  for (std::size_t i = 0; i < scores; ++i)
    all.scores.emplace_back(names[1][i].get<std::string>(), sum[2 + terms + i] / all.units);
  return all;
}

}  // namespace

bool couples_samples(const TrainingStep& step) {
  return std::ranges::any_of(step.terms(), [](const LossTerm& term) {
    return term.coupling == Coupling::kWholeBatch || term.samples_in_group > 0;
  });
}

std::int64_t validation_batch_size(const TrainingStep& step, const StepPlan& plan,
                                   std::int64_t batch_size) {
  const bool is_cut = plan.micro_batch > 0 && !plan.two_pass;
  return is_cut && !couples_samples(step) ? plan.micro_batch : batch_size;
}

SampleOrder validation_order(const TrainingStep& step, std::int64_t size) {
  constexpr std::uint64_t kSeed = 1;
  return couples_samples(step) ? shuffled_order(size, kSeed, /*epoch=*/0) : sequential_order(size);
}

StepNumbers measure(const TrainingStep& step, const PreparedNetwork& network, const Batch& batch,
                    const StepPlan& plan, RowsAtOnce* rows, at::Tensor* kept) {
  const auto measure_in = [&](std::int64_t micro_batch) {
    StepNumbers numbers(step.weight(batch), step.scored(batch));
    const Batch placed = network.placed(step.arrange(batch, BatchUse::kValidation));
    const ScopedInference inference(network);
    const NamedTensors encoded =
        taken_in(network.precision(), encode(step, network.module(), placed, micro_batch));
    if (kept) *kept = step.kept_in_validation(encoded, placed);
    numbers.add(numbers.row(step.loss(encoded, placed), step.score(encoded, placed)));
    numbers.fetch();
    return numbers;
  };
  if (!rows) return measure_in(plan.micro_batch);
  std::optional<StepNumbers> numbers;
  const std::int64_t cut =
      plan.micro_batch > 0 ? std::min(plan.micro_batch, batch.units()) : batch.units();
  rows->run(cut, [&](std::int64_t at_once) { numbers.emplace(measure_in(at_once)); });
  return *std::move(numbers);
}

Means validate(const TrainingStep& step, const PreparedNetwork& network,
               std::shared_ptr<const Dataset> dataset, const ValidationOptions& options,
               RowsAtOnce& rows) {
  const std::int64_t samples = dataset->describe().size;
  const std::int64_t size = validation_batch_size(step, options.plan, options.batch_size);
  const std::int64_t all_batches =
      std::min((samples + size - 1) / size, options.batches.value_or(samples));
  RetriedLoader loader(
      {dataset, own_batches(validation_order(step, samples), size, all_batches, options.ranks),
       size, options.epoch},
      rows.policy(), rows.context());
  const std::int64_t batches =
      std::min(loader.batches(), options.batches.value_or(loader.batches()));
  std::vector<at::Tensor> kept;  // per batch
  std::vector<StepNumbers>
      measured;  // read at the end, so that the host never waits for a GPU between batches
  while (static_cast<std::int64_t>(measured.size()) < batches) {
    if (options.before_batch)
      options.before_batch(static_cast<std::int64_t>(measured.size()) + 1, batches);
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    refuse_bad_unit(step, *dataset, *batch);
    measured.push_back(measure(step, network, *batch, options.plan, &rows, &kept.emplace_back()));
  }
  RankGroup* const group = group_of(options.ranks);
  if (group) group->answer_rest();
  if (measured.empty() && options.ranks.rank == 0) {
    throw runner::StageError(runner::ErrorCode::kTooFewSamples,
                             "none of the validation samples could be read");
  }
  Means means = measured.empty() ? Means() : StepNumbers::means(measured);
  if (group) means = over_all(means, *group);
  at::Tensor rows_kept =
      !kept.empty() && kept.front().defined() ? torch::cat(kept).cpu() : at::Tensor();
  if (group) rows_kept = gathered_rows(rows_kept, *group);
  if (rows_kept.defined()) {
    for (auto& score : step.scores_of_all(rows_kept)) means.scores.push_back(std::move(score));
    means.saved = step.saved_of_all(rows_kept);
  }
  return means;
}

void EncodedParts::add(NamedTensors encoded) { parts_.push_back(std::move(encoded)); }

NamedTensors EncodedParts::join() {
  NamedTensors joined;
  names_.clear();
  offsets_.clear();
  for (const auto& [name, first] : parts_.front()) {
    names_.push_back(name);
    std::vector<std::int64_t>& offsets = offsets_.emplace_back();
    if (first.dim() == 0) {
      joined.set(name, first);
      continue;
    }
    std::vector<at::Tensor> rows;
    offsets.push_back(0);
    for (const NamedTensors& part : parts_) {
      rows.push_back(part.at(name));
      offsets.push_back(offsets.back() + rows.back().size(0));
    }
    joined.set(name, torch::cat(rows));
  }
  parts_.clear();
  return joined;
}

NamedTensors EncodedParts::cut(const NamedTensors& joined, std::size_t part) const {
  NamedTensors result;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (!joined.contains(names_[i])) continue;
    const at::Tensor& whole = joined.at(names_[i]);
    if (!offsets_[i].empty())
      result.set(names_[i], whole.slice(0, offsets_[i][part], offsets_[i][part + 1]));
    else if (part == 0) result.set(names_[i], whole);
  }
  return result;
}

}  // namespace stages
