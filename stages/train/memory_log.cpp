#include "stages/train/memory_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <torch/nn/module.h>

#include "runner/shared/stage/run_context.h"
#include "runner/shared/text/units.h"
#include "stages/machine/counting_allocator.h"

namespace stages {
namespace {

constexpr std::size_t kGrowing = 3;  // number of consecutive epochs with growing memory that
                                     // count as a leak

bool is_about_the_same(std::int64_t a, std::int64_t b) {
  constexpr double kNews = 0.05;
  return std::abs(static_cast<double>(a - b)) <= kNews * static_cast<double>(b);
}

std::string gib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f GiB", static_cast<double>(bytes) / 0x1p30);
  return text;
}

/// Returns the growth per step of evenly spaced `values`: the slope of the least-squares line.
double slope(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double above = 0, below = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - (n - 1) / 2;
    above += x * values[i];
    below += x * x;
  }
  return above / below;
}

}  // namespace

std::vector<OwnedTensor> owned_tensors(const torch::nn::Module& network,
                                       const NamedTensors& optimizer_state) {
  std::vector<OwnedTensor> owned;
  std::set<const void*> known;
  const auto add = [&](const char* owner, const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    if (known.insert(tensor.storage().unsafeGetStorageImpl()).second)
      owned.push_back({owner, name, tensor});
  };
  const auto parameters = network.named_parameters();
  for (const auto& one : parameters) add("parameter", one.key(), one.value());
  for (const auto& one : network.named_buffers()) add("buffer", one.key(), one.value());
  for (const auto& one : parameters) add("gradient", one.key(), one.value().grad());
  for (const auto& [name, tensor] : optimizer_state) add("optimizer_state", name, tensor);
  return owned;
}

std::vector<std::int64_t> bytes_by_owner(const std::vector<OwnedTensor>& owned, std::int64_t live) {
  std::vector<std::int64_t> bytes(std::size(kOwners), 0);
  for (const OwnedTensor& one : owned) {
    const auto size = static_cast<std::int64_t>(one.tensor.storage().nbytes());
    bytes[std::ranges::find(kOwners, one.owner) - kOwners] += size;
    live -= size;
  }
  bytes.back() = std::max<std::int64_t>(live, 0);
  return bytes;
}

MemoryLog::MemoryLog(runner::RunContext& context, Options options,
                     std::function<std::vector<std::int64_t>(std::int64_t)> live_by_owner)
    : context_(context),
      options_(std::move(options)),
      live_by_owner_(std::move(live_by_owner)),
      meter_(options_.device) {
  if (!options_.empty_cache && has_cache(options_.device))
    options_.empty_cache = [device = options_.device] { stages::empty_cache(device); };
  meter_.peak_since_last();
}

void MemoryLog::begin() { say("at the start"); }

void MemoryLog::end_micro_batch() {
  const std::int64_t every = options_.empty_cache_every.micro_batches;
  if (every > 0 && ++micro_batches_ % every == 0) clear();
}

void MemoryLog::end_step(std::int64_t step) {
  const std::int64_t every = options_.empty_cache_every.steps;
  if (every > 0 && ++steps_ % every == 0) clear();
  const bool is_logged = (step - 1) % options_.log_every == 0 || step == options_.steps;
  if (!is_logged || is_silent()) return;
  const std::int64_t peak = meter_.peak_since_last();
  epoch_peak_ = std::max(epoch_peak_, peak);
  const MemoryUse use = meter_.use();
  context_.metric("memory/allocated", static_cast<double>(use.allocated), step);
  context_.metric("memory/reserved", static_cast<double>(use.reserved), step);
  context_.metric("memory/peak", static_cast<double>(peak), step);
  context_.metric("memory/retries", static_cast<double>(use.retries), step);
}

void MemoryLog::end_epoch(std::int64_t epoch, std::int64_t step) {
  say("after epoch " + std::to_string(epoch));
  watch_growth(step);
  const std::int64_t every = options_.empty_cache_every.epochs;
  if (every == 0 || ++epochs_ % every != 0 || !options_.empty_cache) return;
  clear();
  say("after clearing");
}

void MemoryLog::end(std::int64_t step) {
  epoch_peak_ = std::max(epoch_peak_, peak_);
  say("at the end");
  if (!options_.planned_live || is_silent()) return;
  const double share = static_cast<double>(peak_) / static_cast<double>(*options_.planned_live);
  context_.metric("memory/peak_by_plan", share, step);
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f", 100 * share);
  context_.say("memory peak: " + runner::size_text(peak_) + " in tensors, " + percent +
               "% of the " + runner::size_text(*options_.planned_live) + " planned");
}

bool MemoryLog::is_silent() const {
  return options_.device.is_cpu() && !CountingAllocator::innermost();
}

void MemoryLog::say(const std::string& when) {
  if (is_silent()) return;
  epoch_peak_ = std::max(epoch_peak_, meter_.peak_since_last());
  peak_ = std::max(peak_, epoch_peak_);
  const MemoryUse use = meter_.use();
  const bool is_resident =
      options_.device.is_cpu() &&
      !has_cache(options_.device);  // memory is managed by the operating system
  const std::array<std::int64_t, 3> now = {use.allocated, is_resident ? 0 : use.reserved,
                                           epoch_peak_};
  const bool is_news = !reported_ || use.retries > reported_retries_ || cleared_ > 0 ||
                       !std::ranges::equal(now, *reported_, is_about_the_same);
  std::string line = "memory " + when + ": allocated " + gib(use.allocated) +
                     (is_resident ? ", resident " : ", reserved ") + gib(use.reserved) + ", peak " +
                     gib(std::exchange(epoch_peak_, 0)) + ", budget " + gib(meter_.budget());
  if (use.retries > 0)
    line += ", " + std::to_string(use.retries) +
            (options_.device.is_cpu() ? " retried or refused" : " retries");
  if (cleared_ > 0)
    line += ", cache cleared " + std::to_string(std::exchange(cleared_, 0)) + " times";
  if (!is_news) return context_.detail(line);
  reported_ = now;
  reported_retries_ = use.retries;
  context_.say(line);
}

void MemoryLog::clear() {
  if (!options_.empty_cache) return;
  options_.empty_cache();
  ++cleared_;
}

void MemoryLog::watch_growth(std::int64_t step) {
  if (is_silent()) return;
  live_.push_back(live_by_owner_(meter_.in_use()));
  for (std::size_t owner = 0; owner < std::size(kOwners); ++owner) {
    std::vector<double> values;
    for (const auto& epoch : live_) values.push_back(static_cast<double>(epoch[owner]));
    const std::string name = kOwners[owner];
    context_.metric("memory/live/" + name, values.back(), step);
    if (values.size() < 2) continue;
    const double growth = slope(values);
    context_.metric("memory/slope/" + name, growth, step);
    const auto is_no_growth = [](double a, double b) { return b <= a; };
    if (values.size() < kGrowing ||
        std::adjacent_find(values.end() - kGrowing, values.end(), is_no_growth) != values.end())
      continue;
    context_.say("memory of owner '" + name + "' grows by " +
                 runner::bytes_text(static_cast<std::int64_t>(growth)) +
                 " per epoch: something keeps memory that it should release");
  }
}

namespace {

using runner::bytes_text;

constexpr std::size_t kShownInRow = 3;  // number of items per row

/// The items under one heading.
struct Row {
  std::string heading;
  std::int64_t bytes = 0;
  std::vector<std::pair<std::int64_t, std::string>> parts;  // bytes and text
};

Row row_of(std::string heading, const std::vector<OutOfMemory::Owned>& tensors) {
  Row row{std::move(heading), 0, {}};
  for (const auto& one : tensors) {
    row.bytes += one.bytes;
    row.parts.emplace_back(one.bytes, one.name + " " + bytes_text(one.bytes));
  }
  return row;
}

Row row_of(StepPhase phase, const std::map<std::int64_t, std::int64_t>& counts) {
  Row row{phase == StepPhase::kIdle ? "allocated between steps"
                                    : "allocated in " + std::string(name(phase)),
          0,
          {}};
  for (const auto& [bytes, count] : counts) {
    row.bytes += bytes * count;
    row.parts.emplace_back(bytes * count, std::to_string(count) + " of " + bytes_text(bytes));
  }
  return row;
}

std::string in_words(Row row) {
  std::ranges::stable_sort(row.parts, std::greater(), [](const auto& part) { return part.first; });
  std::string line = "  " + row.heading + " " + bytes_text(row.bytes) + ":";
  for (std::size_t i = 0; i < std::min(kShownInRow, row.parts.size()); ++i)
    line += (i == 0 ? " " : ", ") + row.parts[i].second;
  if (row.parts.size() > kShownInRow) line += ", …";
  return line;
}

/// Returns "phase 'backward' of step 2", or "step 2".
std::string place(const OutOfMemory& what) {
  const std::string step = "step " + std::to_string(what.step);
  if (!what.refused || what.refused->phase == StepPhase::kIdle) return step;
  return "phase '" + std::string(name(what.refused->phase)) + "' of " + step;
}

}  // namespace

OutOfMemory look_at_out_of_memory(const std::exception& error, std::int64_t step_number,
                                  const TrainingStep& step, const StepExecution& execution,
                                  std::int64_t batch_size, const MemoryPolicy& policy) {
  auto* const allocator = CountingAllocator::innermost();
  OutOfMemory what{.step = step_number,
                   .refused = allocator ? allocator->take_refused() : std::nullopt,
                   .owned = {},
                   .micro_batch = execution.plan().micro_batch,
                   .batch_size = batch_size,
                   .can_be_cut = !step.mixes_samples(),
                   .policy = policy.pointer,
                   .has_own_budget = policy.budget || policy.memory_fraction < 1,
                   .cause = error.what()};
  for (const OwnedTensor& one : owned_tensors(execution.network().module(), execution.state()))
    what.owned.push_back({one.owner, one.name, one.tensor.storage().data(),
                          static_cast<std::int64_t>(one.tensor.storage().nbytes())});
  return what;
}

std::vector<std::string> live_table(const OutOfMemory& what) {
  std::map<const void*, const OutOfMemory::Owned*> owners;
  std::map<std::string, std::vector<OutOfMemory::Owned>> owned;
  std::map<StepPhase, std::map<std::int64_t, std::int64_t>> made;  // counts by bytes
  for (const auto& one : what.owned) owners.emplace(one.data, &one);
  if (what.refused) {
    for (const LiveBlock& block : what.refused->alive) {
      const auto owner = owners.find(block.data);
      if (owner != owners.end()) owned[owner->second->owner].push_back(*owner->second);
      else ++made[block.phase][block.bytes];
    }
  } else {
    for (const auto& one : what.owned) owned[one.owner].push_back(one);
  }
  std::vector<Row> rows;
  for (const auto& [owner, tensors] : owned) rows.push_back(row_of(owner, tensors));
  for (const auto& [phase, counts] : made) rows.push_back(row_of(phase, counts));
  std::ranges::stable_sort(rows, std::greater(), &Row::bytes);
  std::vector<std::string> lines = {
      what.refused
          ? "live when memory ran out in " + place(what) + ": " + bytes_text(what.refused->live) +
                ", and " + bytes_text(what.refused->tried) + " more were requested"
          : "kept from step to step when memory ran out at " + place(what)};
  for (Row& row : rows) lines.push_back(in_words(std::move(row)));
  return lines;
}

runner::StageError out_of_memory_error(const OutOfMemory& what) {
  std::string message = "out of memory in " + place(what);
  const bool is_limited = what.refused && what.refused->limit;
  if (is_limited) {
    message += ": tried to allocate " + bytes_text(what.refused->tried) + " while " +
               bytes_text(what.refused->taken) + " of " + bytes_text(*what.refused->limit) +
               " are in use";
  } else {
    std::string_view cause = what.cause;
    cause = cause.substr(0, cause.find('\n'));
    constexpr std::string_view kSame = "out of memory: ";
    if (cause.starts_with(kSame)) cause.remove_prefix(kSame.size());
    message += ": " + std::string(cause);
  }
  std::string help;
  if (!what.can_be_cut)
    help = "lower train.batch_size, which is " + std::to_string(what.batch_size) +
           ": this batch cannot be split without changing the training";
  else if (what.micro_batch == 0)
    help = "set memory.micro_batch below the batch of " + std::to_string(what.batch_size);
  else if (what.micro_batch > 1)
    help = "lower memory.micro_batch, which is " + std::to_string(what.micro_batch);
  else help = "use a smaller model or input";
  const bool is_own = is_limited && what.has_own_budget;
  if (is_own)
    help += ", or raise the budget: " + std::to_string(what.refused->wanted) +
            " bytes is the smallest budget that gets further";
  return runner::StageError(runner::ErrorCode::kOutOfMemory, message)
      .at(is_own ? "/budget" : "")
      .in_stage(is_own ? what.policy : "")
      .with_help(help);
}

}  // namespace stages
