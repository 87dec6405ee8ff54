#include "runner/config/job_list.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runner/config/number_range.h"
#include "runner/config/override_text.h"
#include "runner/config/scalar.h"
#include "runner/config/seeded_order.h"
#include "runner/config/wildcard.h"
#include "runner/text/suggest.h"

namespace runner {
namespace {

/// A mistake in one dimension; the others are read on.
struct BadSweep {
  Diagnostic diagnostic;
};

[[noreturn]] void bad_job(const Location& where, std::string message, std::string help) {
  throw BadSweep{{ErrorCode::kBadSweep, where, "", std::move(message), std::move(help)}};
}

/// What is set, as it was typed before the '=': "+a", "db@source".
std::string key_text(const Override& override) {
  std::string text = std::string(prefix(override.kind)) + override.key;
  if (override.package) text += "@" + *override.package;
  return text;
}

/// The same whichever way it is set: a=1 and ++a=2 are of one target. ~a is not, for ~a +a=1,2 repeats nothing.
std::string target_of(const Override& override) {
  return override.kind == OverrideKind::kDelete ? key_text(override)
                                                : key_text(override).substr(prefix(override.kind).size());
}

std::string too_many() { return "the sweep has more than " + std::to_string(JobList::kMaxJobs) + " runs"; }

std::vector<Value> numbers_of(const Sweep& sweep) {
  const auto range = NumberRange::make(sweep);
  if (!range) throw BadSweep{range.errors().front()};
  if (range->size() > JobList::kMaxJobs) bad_job(sweep.where, too_many(), "sweep over fewer values at a time");
  std::vector<Value> values;
  for (std::uint64_t i = 0; i < range->size(); ++i) values.push_back((*range)[i]);
  return values;
}

bool matches(const std::vector<Value>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns,
                             [&](const Value& pattern) { return matches_wildcard(name, scalar_text(pattern)); });
}

std::vector<Value> options_of(const Override& override, const ConfigFiles& configs) {
  const Sweep& sweep = *override.sweep;
  if (!configs.is_group(override.key)) {
    bad_job(sweep.where, "glob() chooses among the options of a group, and '" + override.key + "' is not a group",
            did_you_mean(override.key, configs.groups()));
  }
  std::vector<Value> values;
  std::string all;
  for (const std::string& name : configs.options(override.key)) {
    all += (all.empty() ? "" : ", ") + name;
    if (matches(sweep.include, name) && !matches(sweep.exclude, name)) values.push_back({name, sweep.where});
  }
  if (values.empty()) bad_job(sweep.where, "no option of '" + override.key + "' matches", "options: " + all);
  return values;
}

/// The values of a sweep, in order.
std::vector<Value> values_of(const Override& override, const ConfigFiles& configs) {
  const Sweep& sweep = *override.sweep;
  switch (sweep.kind) {
    case Sweep::Kind::kRange:
      return numbers_of(sweep);
    case Sweep::Kind::kGlob:
      return options_of(override, configs);
    case Sweep::Kind::kInterval:
      bad_job(sweep.where, "an interval has no list of values to run", "write range(start,stop,step), or values a,b,c");
    default:
      return sweep.choices;
  }
}

/// What each run may set of an override: itself, or one value of its sweep.
std::vector<std::vector<Override>> rows_of(const Override& override, const ConfigFiles& configs, std::uint64_t seed) {
  if (!override.sweep) return {{override}};
  std::vector<std::vector<Override>> rows = override.sweep->rows;
  if (override.sweep->kind != Sweep::Kind::kZip) {
    std::vector<Value> values = values_of(override, configs);
    if (values.size() > JobList::kMaxJobs)
      bad_job(override.sweep->where, too_many(), "sweep over fewer values at a time");
    Override one_value = override;  // copied for each, so without the whole sweep
    one_value.sweep.reset();
    one_value.value_text.clear();
    for (Value& value : values) {
      Override one = one_value;
      one.value_text = element_text(value);
      one.value = std::move(value);
      rows.push_back({std::move(one)});
    }
  }
  if (rows.empty()) bad_job(override.sweep->where, "the sweep of '" + override.key + "' has no values", "");
  if (override.sweep->shuffle) SeededOrder(seed).shuffle(rows);
  return rows;
}

std::set<std::string> targets_of(const std::vector<std::vector<Override>>& rows) {
  std::set<std::string> targets;
  for (const std::vector<Override>& row : rows) {
    for (const Override& override : row) targets.insert(target_of(override));
  }
  return targets;
}

}  // namespace

Result<JobList> JobList::make(std::span<const Override> overrides, const ConfigFiles& configs, std::uint64_t seed) {
  JobList list;
  Diagnostics errors;
  std::map<std::string, std::size_t> place_of;   // of single values, by key_text()
  std::map<std::string, std::size_t> target_at;  // the first dimension that sets a target
  for (const Override& override : overrides) {
    try {
      Dimension dimension{rows_of(override, configs, seed), override.sweep.has_value(), override.where};
      const std::size_t next = list.dimensions_.size();
      for (const std::string& target : targets_of(dimension.values)) {
        if (dimension.is_sweep && target.starts_with("hydra.")) {
          bad_job(override.where, "Sweeping over Hydra's configuration is not supported : '" + target + "'",
                  "give it one value");
        }
        const std::size_t first = target_at.try_emplace(target, next).first->second;
        if (first == next || !(list.dimensions_[first].is_sweep || dimension.is_sweep)) continue;
        errors.push_back({ErrorCode::kBadSweep,
                          override.key_where,
                          "",
                          "'" + target + "' is given twice, and one of the two is a sweep",
                          "leave one of them out",
                          {{list.dimensions_[first].where, "given here too"}}});
      }
      const std::size_t at = dimension.is_sweep ? next : place_of.try_emplace(key_text(override), next).first->second;
      if (at < next) list.dimensions_[at] = std::move(dimension);
      else list.dimensions_.push_back(std::move(dimension));
    } catch (const BadSweep& bad) {
      errors.push_back(bad.diagnostic);
    }
  }
  if (errors.empty() && list.size() > kMaxJobs) {
    errors.push_back(
        {ErrorCode::kBadSweep, list.dimensions_.front().where, "", too_many(), "sweep over fewer values at a time"});
  }
  if (!errors.empty()) return errors;
  return list;
}

std::uint64_t JobList::size() const {
  std::uint64_t size = 1;
  for (const Dimension& dimension : dimensions_) {
    size = std::min(size * dimension.values.size(), kMaxJobs + 1);  // no dimension is larger, so nothing overflows
  }
  return size;
}

std::vector<Override> JobList::operator[](std::uint64_t number) const {
  std::vector<Override> job;
  std::uint64_t below = size();
  for (const Dimension& dimension : dimensions_) {
    below /= dimension.values.size();
    const std::vector<Override>& row = dimension.values[number / below % dimension.values.size()];
    job.insert(job.end(), row.begin(), row.end());
  }
  return job;
}

}  // namespace runner
