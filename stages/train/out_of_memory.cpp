#include "stages/train/out_of_memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "runner/shared/text/bytes.h"
#include "stages/train/memory_log.h"

namespace stages {
namespace {

using runner::bytes_text;

constexpr std::size_t kShownInRow = 3;  // of what is in a row

/// What is listed under one heading.
struct Row {
  std::string heading;
  std::int64_t bytes = 0;
  std::vector<std::pair<std::int64_t, std::string>> parts;  // bytes and words
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
  Row row{phase == StepPhase::kIdle ? "made between steps" : "made in " + std::string(name(phase)), 0, {}};
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

/// "phase 'backward' of step 2", or "step 2".
std::string place(const OutOfMemory& what) {
  const std::string step = "step " + std::to_string(what.step);
  if (!what.refused || what.refused->phase == StepPhase::kIdle) return step;
  return "phase '" + std::string(name(what.refused->phase)) + "' of " + step;
}

}  // namespace

OutOfMemory look_at_out_of_memory(const std::exception& error, std::int64_t step_number, const TrainingStep& step,
                                  const StepExecution& execution, std::int64_t batch_size, const MemoryPolicy& policy) {
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
    what.owned.push_back(
        {one.owner, one.name, one.tensor.storage().data(), static_cast<std::int64_t>(one.tensor.storage().nbytes())});
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
  std::vector<std::string> lines = {what.refused ? "live when memory ran out in " + place(what) + ": " +
                                                       bytes_text(what.refused->live) + ", and " +
                                                       bytes_text(what.refused->tried) + " more were asked for"
                                                 : "kept from step to step when memory ran out at " + place(what)};
  for (Row& row : rows) lines.push_back(in_words(std::move(row)));
  return lines;
}

runner::StageError out_of_memory_error(const OutOfMemory& what) {
  std::string message = "out of memory in " + place(what);
  const bool is_limited = what.refused && what.refused->limit;
  if (is_limited) {
    message += ": tried to allocate " + bytes_text(what.refused->tried) + " while " + bytes_text(what.refused->taken) +
               " of " + bytes_text(*what.refused->limit) + " are in use";
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
           ": this batch cannot be cut without changing the training";
  else if (what.micro_batch == 0) help = "set memory.micro_batch below the batch of " + std::to_string(what.batch_size);
  else if (what.micro_batch > 1) help = "lower memory.micro_batch, which is " + std::to_string(what.micro_batch);
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
