#include "runner/worker/node_error.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "runner/shared/error/stage_errors.h"
#include "runner/shared/error/system_limit.h"
#include "runner/shared/stage/determinism.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/bytes.h"

namespace runner {
namespace {

/// A LibTorch exception carries a C++ backtrace in its text: the first line is for the user, the rest for the log,
/// which is where the worker's stderr goes.
std::string first_line_logging_rest(const char* what) {
  const std::string_view text = what;
  const std::size_t end = std::min(text.find('\n'), text.size());
  if (end < text.size()) std::fprintf(stderr, "%s\n", what);
  return std::string(text.substr(0, end));
}

/// LibTorch's own exception types cannot be named here, so its texts must do.
bool says_out_of_memory(std::string_view what) {
  return what.find("out of memory") != what.npos || what.find("can't allocate memory") != what.npos;
}

Diagnostic as_diagnostic(const StageError& error, const Node& node) {
  return {error.code, {}, (error.stage.empty() ? node.pointer : error.stage) + error.option, error.what(), error.help};
}

Diagnostic out_of_memory(const Node& node, const std::string& detail) {
  return {ErrorCode::kOutOfMemory,
          {},
          node.pointer,
          "out of memory" + (detail.empty() ? "" : ": " + detail),
          "use a smaller memory.micro_batch, train.batch_size or model"};
}

Diagnostic not_deterministic(const Node& node, const std::string& operation) {
  return {
      ErrorCode::kNotDeterministic,
      {},
      node.pointer,
      nondeterminism_text(operation) + " on this device",
      "determinism: warn continues with a warning, determinism: off continues; on device=cpu most operations have one"};
}

/// What stays for the whole of a training, however its batches are computed, and what it is called.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLasting = {
    {{"parameter", "weights"}, {"gradient", "gradients"}, {"optimizer_state", "optimizer state"}}};

/// From so many times as many operations on, a step is noticeably slower than its compute says.
constexpr double kNoticed = 1.5;

struct Lasting {
  std::string names;  ///< "weights, gradients and optimizer state"
  std::int64_t bytes = 0;
};

Lasting lasting(const MemoryPlan& plan) {
  Lasting result;
  std::vector<std::string_view> names;
  for (const auto& [owner, name] : kLasting) {
    const auto found = std::ranges::find(plan.owners, owner, &NamedBytes::name);
    if (found == plan.owners.end()) continue;
    names.push_back(name);
    result.bytes += found->bytes;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) result.names += i + 1 < names.size() ? ", " : " and ";
    result.names += names[i];
  }
  return result;
}

const PlanAlternative* smallest(const MemoryPlan& plan) {
  const PlanAlternative* least = nullptr;
  for (const PlanAlternative& other : plan.alternatives) {
    if (other.refused.empty() && (!least || other.predicted < least->predicted)) least = &other;
  }
  return least;
}

std::string advice(const MemoryPlan& plan) {
  if (const PlanAlternative* other = cheapest_that_fits(plan)) {
    return override_text(other->overrides) + " fits: " + size_text(other->predicted) +
           (other->relative_operations > kNoticed
                ? ", and starts " + std::to_string(std::lround(other->relative_operations)) +
                      " times as many operations"
                : "") +
           (other->exactness == "declared" ? ", and changes the training" : "");
  }
  if (const auto [names, bytes] = lasting(plan); bytes > *plan.budget)
    return names + " alone take " + size_text(bytes) + ": a larger budget, another device, or a smaller model";
  if (const PlanAlternative* other = smallest(plan); other && other->predicted < plan.predicted) {
    return "none of the alternatives fits; " + override_text(other->overrides) +
           " comes closest: " + size_text(other->predicted);
  }
  return "a larger budget, another device, a smaller batch_size, or smaller images";
}

}  // namespace

Diagnostic stage_failure(const Node& node) {
  try {
    throw;
  } catch (const StageError& error) {
    return as_diagnostic(error, node);
  } catch (const std::bad_alloc&) {
    return out_of_memory(node, "");
  } catch (const std::system_error& error) {
    const std::string line = first_line_logging_rest(error.what());
    auto limit = limit_reached(error.code(), line);
    if (!limit) return {ErrorCode::kStageFailed, {}, node.pointer, line, ""};
    limit->pointer = node.pointer;
    return *std::move(limit);
  } catch (const std::exception& error) {
    const std::string line = first_line_logging_rest(error.what());
    constexpr std::string_view kSaid = "out of memory: ";
    if (says_out_of_memory(line)) return out_of_memory(node, line.substr(line.starts_with(kSaid) ? kSaid.size() : 0));
    if (const auto operation = nondeterministic_operation(line)) return not_deterministic(node, *operation);
    return {ErrorCode::kStageFailed, {}, node.pointer, line, ""};
  } catch (...) {
    return {ErrorCode::kStageFailed, {}, node.pointer, "an exception of unknown type", ""};
  }
}

Diagnostics stage_failures(const Node& node) {
  try {
    throw;
  } catch (const StageErrors& several) {
    Diagnostics errors;
    for (const StageError& error : several.all) errors.push_back(as_diagnostic(error, node));
    return errors;
  } catch (...) {
    return {stage_failure(node)};
  }
}

const PlanAlternative* cheapest_that_fits(const MemoryPlan& plan) {
  const auto fits = [&](const PlanAlternative& other) {
    return other.refused.empty() && (!plan.budget || other.predicted <= *plan.budget);
  };
  const auto found = std::ranges::find_if(plan.alternatives, fits);
  return found == plan.alternatives.end() ? nullptr : &*found;
}

Diagnostic does_not_fit(const MemoryPlan& plan, std::string pointer) {
  assert(!plan.fits());
  Diagnostic refusal{ErrorCode::kOutOfMemory,
                     {},
                     std::move(pointer),
                     "'" + plan.node + "' needs " + size_text(plan.predicted) + " at its peak, " +
                         (plan.held.empty() ? "" : held_text(plan) + ", ") + "and may use " + size_text(*plan.budget) +
                         " (" + plan.budget_from + "): " + size_text(plan.predicted - *plan.budget) + " too much",
                     advice(plan)};
  if (!plan.largest.empty())
    refusal.notes.push_back({{}, "the largest tensor at the peak: " + tensor_text(plan.largest.front())});
  for (const NamedBytes& one : plan.held)
    refusal.notes.push_back({{}, "held by an earlier node: " + one.name + ", " + size_text(one.bytes)});
  return refusal;
}

}  // namespace runner
