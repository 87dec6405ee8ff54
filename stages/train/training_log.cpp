#include "stages/train/training_log.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"
#include "stages/artifact/dataset.h"
#include "stages/train/gradient_histogram.h"

namespace stages {

std::string unit_of(const DatasetDescription& data) {
  const bool images = std::ranges::count(data.tensors, "image", &TensorSpec::name) > 0;
  return images ? "images" : "samples";
}

void Means::add(const Means& more) {
  if (weight == 0) {
    *this = more;
    return;
  }
  const auto mix = [](double& mean, double other, double share) { mean += (other - mean) * share; };
  const auto mix_all = [&](Named& means, const Named& others, double share) {
    assert(means.size() == others.size());
    for (std::size_t i = 0; i < means.size(); ++i) mix(means[i].second, others[i].second, share);
  };
  const double share = more.weight / (weight + more.weight);
  mix(loss, more.loss, share);
  mix_all(terms, more.terms, share);
  mix_all(scores, more.scores, more.units / (units + more.units));
  weight += more.weight;
  units += more.units;
}

double Means::at(std::string_view name) const {
  if (name == "loss") return loss;
  for (const Named* all : {&terms, &scores}) {
    const auto found = std::ranges::find(*all, name, &Named::value_type::first);
    if (found != all->end()) return found->second;
  }
  throw std::out_of_range("nothing is measured as '" + std::string(name) + "'");
}

namespace {

using nlohmann::json;

[[gnu::format(printf, 1, 2)]] std::string format(const char* form, ...) {
  char text[128];
  va_list arguments;
  va_start(arguments, form);
  std::vsnprintf(text, sizeof text, form, arguments);
  va_end(arguments);
  return text;
}

/// Returns a string such as "loss 1.234 accuracy 45.6%".
std::string in_words(const Means& means) {
  std::string words = format("loss %.3f", means.loss);
  for (const auto& [name, value] : means.scores) {
    words += "  " + name +
             (name == "accuracy" ? format(" %.1f%%", 100 * value) : format(" %.3f", value));
  }
  return words;
}

json optional_json(const std::optional<double>& value) { return value ? json(*value) : json(); }

/// Reads a list such as [["accuracy", 0.5], …].
Means::Named named_numbers(const runner::JsonFields<json>& fields, const char* key) {
  Means::Named numbers;
  for (const json& pair : fields.list(key)) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number())
      fields.fail(key, "a list of names with their numbers");
    numbers.emplace_back(pair[0], pair[1]);
  }
  return numbers;
}

}  // namespace

void Throughput::add(double seconds, std::int64_t samples) {
  constexpr std::size_t kMarks = 17;
  marks_.push_back({seconds, samples});
  if (marks_.size() > kMarks) marks_.pop_front();
}

double Throughput::per_second() const {
  if (marks_.size() < 2) return 0;
  const double seconds = marks_.back().seconds - marks_.front().seconds;
  std::int64_t samples = 0;
  for (auto mark = marks_.begin() + 1; mark != marks_.end(); ++mark) samples += mark->samples;
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

TrainingLog::TrainingLog(runner::RunContext& context, Options options, Clock clock)
    : context_(context), options_(std::move(options)), clock_(std::move(clock)), began_(clock_()) {}

void TrainingLog::begin_epoch() {
  epoch_began_ = trained_until_ = clock_();
  epoch_samples_ = 0;
  new_samples_ = 0;
  throughput_.restart();
  throughput_.add(epoch_began_, 0);
}

void TrainingLog::progress(const StepRecord& latest) {
  trained_until_ = clock_();
  throughput_.add(trained_until_, std::exchange(new_samples_, 0));

  runner::Progress progress;
  progress.phase = "train";
  progress.epoch = latest.epoch;
  progress.epochs = options_.epochs;
  progress.step = latest.step;
  progress.steps = options_.steps;
  progress.samples_per_second = throughput_.per_second();
  progress.loss = latest.means.loss;
  // Averages over all steps so far, so that reading, validating and saving are included.
  progress.seconds_left = (trained_until_ - began_) /
                          static_cast<double>(latest.step - first_step_) *
                          static_cast<double>(options_.steps - latest.step);
  show(std::move(progress));
}

bool TrainingLog::has_metrics(std::int64_t step) const {
  return (step - 1) % options_.log_every == 0 || step == options_.steps;
}

void TrainingLog::step(const StepRecord& record) {
  const std::int64_t samples = record.samples * options_.samples_in_unit;
  epoch_samples_ += samples;
  new_samples_ += samples;

  if (!has_metrics(record.step)) return;
  context_.metric("train/loss", record.means.loss, record.step);
  if (record.means.terms.size() > 1) {
    for (const auto& [name, value] : record.means.terms)
      context_.metric("train/" + name, value, record.step);
  }
  for (const auto& [name, value] : record.means.scores)
    context_.metric("train/" + name, value, record.step);
  if (record.gradient_norm)
    context_.metric("train/gradient_norm", *record.gradient_norm, record.step);
  if (record.loss_scale) context_.metric("train/loss_scale", *record.loss_scale, record.step);
  context_.metric("train/learning_rate", record.learning_rate, record.step);
  for (const auto& [name, rate] : record.group_rates) {
    context_.metric("train/learning_rate/" + name, rate, record.step);
  }
}

void TrainingLog::gradients(const GradientHistograms& histograms, std::int64_t step) {
  histograms.record(step, context_);
}

void TrainingLog::say(const std::string& line) { context_.say(line); }

void TrainingLog::validated_batch(std::int64_t epoch, std::int64_t batch, std::int64_t batches) {
  runner::Progress progress;
  progress.phase = "validate";
  progress.epoch = epoch;
  progress.epochs = options_.epochs;
  progress.step = batch;
  progress.steps = batches;
  show(std::move(progress));
}

void TrainingLog::say_missing(std::int64_t skipped, std::int64_t left_out) {
  if (left_out > 0)
    say("samples left out because the rest of their batch cannot be read and layers mix the "
        "samples of a batch (BatchNorm): " +
        std::to_string(left_out));
  if (skipped > 0) say("samples skipped because they cannot be read: " + std::to_string(skipped));
}

void TrainingLog::show(runner::Progress progress) {
  if (options_.memory_in_use) progress.memory_bytes = options_.memory_in_use();
  progress.budget_bytes = options_.budget_bytes;
  context_.progress(progress);
}

void TrainingLog::end_epoch(const StepRecord& last, const Means& training, std::int64_t skipped,
                            const std::optional<Means>& validation) {
  const auto report = [&](const std::string& prefix, const Means& means) {
    context_.metric(prefix + "loss", means.loss, last.step);
    if (means.terms.size() > 1) {
      for (const auto& [name, value] : means.terms)
        context_.metric(prefix + name, value, last.step);
    }
    for (const auto& [name, value] : means.scores) context_.metric(prefix + name, value, last.step);
  };
  report("train/epoch_", training);
  if (last.loss_scale)
    context_.metric("train/epoch_skipped_steps", static_cast<double>(skipped), last.step);
  if (validation) report("validation/", *validation);

  std::string line = "epoch " + std::to_string(last.epoch) + "/" + std::to_string(options_.epochs) +
                     "  " + in_words(training);
  if (validation) line += "  | validation " + in_words(*validation);
  line += format("  | lr %.1e", last.learning_rate);
  if (skipped > 0)
    line += "  | " + std::to_string(skipped) + " steps skipped: gradients overflowed fp16";
  const double seconds = trained_until_ - epoch_began_;
  if (seconds > 0 && epoch_samples_ > 0) {
    line +=
        format("  | %.0f ", static_cast<double>(epoch_samples_) / seconds) + options_.unit + "/s";
  }
  context_.say(line);
}

json to_json(const EpochSoFar& epoch) {
  const StepRecord& last = epoch.last;
  return {{"weight", epoch.means.weight},
          {"units", epoch.means.units},
          {"loss", epoch.means.loss},
          {"terms", epoch.means.terms},
          {"scores", epoch.means.scores},
          {"skipped_steps", epoch.skipped_steps},
          {"last_epoch", last.epoch},
          {"last_step", last.step},
          {"learning_rate", last.learning_rate},
          {"loss_scale", optional_json(last.loss_scale)},
          {"usual_loss", optional_json(epoch.usual_loss)}};
}

EpochSoFar epoch_so_far_from_json(const json& json) {
  const runner::JsonFields fields(json, "the epoch so far");
  fields.only({"weight", "units", "loss", "terms", "scores", "skipped_steps", "last_epoch",
               "last_step", "learning_rate", "loss_scale", "usual_loss"});
  EpochSoFar epoch;
  epoch.means.weight = fields.number("weight");
  // Older checkpoints do not store the number of units: before samples had weights, it equaled the
  // weight.
  epoch.means.units = json.contains("units") ? fields.number("units") : epoch.means.weight;
  epoch.means.loss = fields.number("loss");
  epoch.means.terms = named_numbers(fields, "terms");
  epoch.means.scores = named_numbers(fields, "scores");
  epoch.skipped_steps = fields.count("skipped_steps");
  epoch.last.epoch = fields.count("last_epoch");
  epoch.last.step = fields.count("last_step");
  epoch.last.learning_rate = fields.number("learning_rate");
  if (!fields.at("loss_scale").is_null()) epoch.last.loss_scale = fields.number("loss_scale");
  if (json.contains("usual_loss") && !fields.at("usual_loss").is_null())
    epoch.usual_loss = fields.number("usual_loss");
  return epoch;
}

std::string validation_text(const Means& validation) {
  nlohmann::json scores = nlohmann::json::object();
  const auto add = [&](const std::string& name, double value) {
    if (std::isfinite(value)) scores[name] = value;
  };
  add("loss", validation.loss);
  for (const auto& [name, value] : validation.scores) add(name, value);
  for (const auto& [name, value] : validation.saved) add(name, value);
  return scores.dump();
}

std::map<std::string, double> validation_scores(const std::map<std::string, std::string>& about) {
  const auto found = about.find("validation");
  if (found == about.end()) return {};
  const auto json = runner::parse_json<nlohmann::json>(found->second);
  std::map<std::string, double> scores;
  if (!json.is_object()) return scores;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) scores.emplace(name, value.get<double>());
  }
  return scores;
}

}  // namespace stages
