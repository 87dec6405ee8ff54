#include "runner/parent/config/trial_list.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "runner/parent/config/interval.h"
#include "runner/parent/config/number_range.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/override_value.h"
#include "runner/parent/config/scalar.h"
#include "runner/parent/config/value_order.h"
#include "runner/shared/text/suggest.h"
#include "runner/shared/text/utf8.h"

namespace runner {
namespace {

/// An error in one dimension; the remaining dimensions are still read.
struct BadSweep {
  Diagnostic diagnostic;
};

[[noreturn]] void bad_trial(const Location& where, std::string message, std::string help) {
  throw BadSweep{{ErrorCode::kBadSweep, where, "", std::move(message), std::move(help)}};
}

/// Returns the text before the '=' as it was typed: "+a", "db@source".
std::string key_text(const Override& override) {
  std::string text = std::string(prefix(override.kind)) + override.key;
  if (override.package) text += "@" + *override.package;
  return text;
}

/// Returns the key set by an override, without its prefix: a=1 and ++a=2 have the same target.
/// Deletions keep their prefix, since ~a and +a=1,2 are not duplicates.
std::string target_of(const Override& override) {
  return override.kind == OverrideKind::kDelete
             ? key_text(override)
             : key_text(override).substr(prefix(override.kind).size());
}

/// Derives a different seed for each key (FNV-1a), so adding a key does not change the values drawn
/// for other keys.
std::uint64_t seed_of(std::uint64_t seed, const std::string& target) {
  std::uint64_t hash = 14695981039346656037u ^ seed * 0x9E3779B97F4A7C15u;
  for (const char letter : target)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return hash;
}

std::string too_many() {
  return "the sweep has more than " + std::to_string(TrialList::kMaxTrials) + " runs";
}

std::vector<Value> numbers_of(const Sweep& sweep) {
  const auto range = NumberRange::make(sweep);
  if (!range) throw BadSweep{range.errors().front()};
  if (range->size() > TrialList::kMaxTrials)
    bad_trial(sweep.where, too_many(), "sweep over fewer values at a time");
  std::vector<Value> values;
  for (std::uint64_t i = 0; i < range->size(); ++i) values.push_back((*range)[i]);
  return values;
}

bool matches(const std::vector<Value>& patterns, const std::string& name) {
  return std::ranges::any_of(
      patterns, [&](const Value& pattern) { return matches_wildcard(name, scalar_text(pattern)); });
}

std::vector<Value> options_of(const Override& override, const ConfigFiles& configs) {
  const Sweep& sweep = *override.sweep;
  if (!configs.is_group(override.key)) {
    bad_trial(
        sweep.where,
        "glob() chooses among the options of a group, but '" + override.key + "' is not a group",
        did_you_mean(override.key, configs.groups()));
  }
  std::vector<Value> values;
  std::string all;
  for (const std::string& name : configs.options(override.key)) {
    all += (all.empty() ? "" : ", ") + name;
    if (matches(sweep.include, name) && !matches(sweep.exclude, name))
      values.push_back({name, sweep.where});
  }
  if (values.empty())
    bad_trial(sweep.where, "no option of '" + override.key + "' matches", "options: " + all);
  return values;
}

/// Returns the values of a sweep, in order.
std::vector<Value> values_of(const Override& override, const ConfigFiles& configs) {
  const Sweep& sweep = *override.sweep;
  switch (sweep.kind) {
    case Sweep::Kind::kRange:
      return numbers_of(sweep);
    case Sweep::Kind::kGlob:
      return options_of(override, configs);
    case Sweep::Kind::kInterval:
      bad_trial(
          sweep.where, "an interval is not a list of values to run",
          "write range(start,stop,step), or values a,b,c, or draw values with sweep.samples=20");
    default:
      return sweep.choices;
  }
}

/// Returns the overrides that a trial may get for `override`: the override itself, or one row for
/// each value of its sweep.
std::vector<std::vector<Override>> rows_of(const Override& override, const ConfigFiles& configs,
                                           std::uint64_t seed) {
  if (!override.sweep) return {{override}};
  std::vector<std::vector<Override>> rows = override.sweep->rows;
  if (override.sweep->kind != Sweep::Kind::kZip) {
    std::vector<Value> values = values_of(override, configs);
    if (values.size() > TrialList::kMaxTrials)
      bad_trial(override.sweep->where, too_many(), "sweep over fewer values at a time");
    Override one_value = override;  // copied for each value, so it omits the sweep itself
    one_value.sweep.reset();
    one_value.value_text.clear();
    for (Value& value : values) {
      Override one = one_value;
      one.value_text = element_text(value);
      one.value = std::move(value);
      rows.push_back({std::move(one)});
    }
  }
  if (rows.empty())
    bad_trial(override.sweep->where, "the sweep of '" + override.key + "' has no values",
              "list at least one");
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

Result<TrialList> TrialList::make(std::span<const Override> overrides, const ConfigFiles& configs,
                                  const TrialChoice& choice) {
  TrialList list;
  Diagnostics errors;
  std::map<std::string, std::size_t> place_of;   // the dimensions of single values, by key_text()
  std::map<std::string, std::size_t> target_at;  // the first dimension that sets each target
  for (const Override& override : overrides) {
    try {
      Dimension dimension{{}, override.sweep.has_value(), override.where};
      dimension.is_drawn = choice.samples && dimension.is_sweep && override.key != "seed";
      if (dimension.is_drawn && override.sweep->kind == Sweep::Kind::kInterval) {
        dimension.interval = override;
        dimension.values = {{override}};  // identifies the target until values are drawn
      } else {
        dimension.values = rows_of(override, configs, choice.seed);
      }
      const std::size_t next = list.dimensions_.size();
      for (const std::string& target : targets_of(dimension.values)) {
        if (dimension.is_sweep && target.starts_with("hydra.")) {
          bad_trial(override.where,
                    "Sweeping over Hydra's configuration is not supported : '" + target + "'",
                    "set it to one value");
        }
        const std::size_t first = target_at.try_emplace(target, next).first->second;
        if (first == next || !(list.dimensions_[first].is_sweep || dimension.is_sweep)) continue;
        errors.push_back({ErrorCode::kBadSweep,
                          override.key_where,
                          "",
                          "'" + target + "' is given twice, and one of them is a sweep",
                          "leave one of them out",
                          {{list.dimensions_[first].where, "given here too"}}});
      }
      const std::size_t at =
          dimension.is_sweep ? next : place_of.try_emplace(key_text(override), next).first->second;
      if (at < next) list.dimensions_[at] = std::move(dimension);
      else list.dimensions_.push_back(std::move(dimension));
    } catch (const BadSweep& bad) {
      errors.push_back(bad.diagnostic);
    }
  }
  if (errors.empty() && choice.samples) errors = list.draw(choice.seed, *choice.samples);
  if (errors.empty() && list.size() > kMaxTrials) {
    errors.push_back({ErrorCode::kBadSweep, list.dimensions_.front().where, "", too_many(),
                      "sweep over fewer values at a time"});
  }
  if (!errors.empty()) return errors;
  return list;
}

Diagnostics TrialList::draw(std::uint64_t seed, std::uint64_t samples) {
  struct Drawn {
    Dimension* dimension;
    SeededOrder random;
    std::optional<Interval> interval;
    std::vector<std::vector<Override>> values = {};
  };
  std::vector<Drawn> all;
  std::uint64_t combinations = 1;
  for (Dimension& dimension : dimensions_) {
    if (!dimension.is_drawn) continue;
    const std::string target = target_of(dimension.values.front().front());
    Drawn drawn{&dimension, SeededOrder(seed_of(seed, target)), {}};
    if (dimension.interval) {
      auto interval = Interval::make(*dimension.interval->sweep);
      if (!interval) return interval.errors();
      drawn.interval = *interval;
    }
    const std::uint64_t size = drawn.interval ? drawn.interval->size() : dimension.values.size();
    combinations = size > kMaxTrials / combinations ? kMaxTrials + 1 : combinations * size;
    all.push_back(std::move(drawn));
  }
  if (all.empty()) {
    return {{ErrorCode::kBadSweep,
             {},
             "/sweep/samples",
             "sweep.samples has nothing to draw from: no key other than 'seed' has several values",
             "give a key several values, as in train.optimizer.learning_rate=interval(0.001,0.1)"}};
  }
  if (samples > combinations) {
    return {{ErrorCode::kBadSweep, all.front().dimension->where, "/sweep/samples",
             "sweep.samples is " + std::to_string(samples) + ", but there are only " +
                 std::to_string(combinations) + " combinations to draw from",
             "leave sweep.samples out to run all of them"}};
  }
  std::set<std::vector<std::string>> known;
  while (known.size() < samples) {
    std::vector<std::string> texts;
    std::vector<std::vector<Override>> sample;
    for (Drawn& one : all) {
      if (one.interval) {
        Override drawn = *one.dimension->interval;
        drawn.sweep.reset();
        drawn.value = one.interval->at(one.random.draw());
        drawn.value_text = element_text(*drawn.value);
        texts.push_back(drawn.value_text);
        sample.push_back({std::move(drawn)});
      } else {
        const std::uint64_t at = one.random.below(one.dimension->values.size());
        texts.push_back(std::to_string(at));
        sample.push_back(one.dimension->values[at]);
      }
    }
    if (!known.insert(std::move(texts)).second) continue;
    for (std::size_t i = 0; i < all.size(); ++i) all[i].values.push_back(std::move(sample[i]));
  }
  for (Drawn& one : all) one.dimension->values = std::move(one.values);
  return {};
}

std::uint64_t TrialList::size() const {
  std::uint64_t size = 1;
  bool is_counted = false;  // the samples, which all drawn dimensions share
  for (const Dimension& dimension : dimensions_) {
    if (dimension.is_drawn && std::exchange(is_counted, true)) continue;
    size = std::min(size * dimension.values.size(),
                    kMaxTrials + 1);  // no dimension has more values, so nothing overflows
  }
  return size;
}

std::vector<Override> TrialList::operator[](std::uint64_t number) const {
  std::vector<Override> job;
  std::uint64_t below = size();
  std::optional<std::uint64_t> sample;
  for (const Dimension& dimension : dimensions_) {
    std::uint64_t at = 0;
    if (dimension.is_drawn && sample) {
      at = *sample;
    } else {
      below /= dimension.values.size();
      at = number / below % dimension.values.size();
      if (dimension.is_drawn) sample = at;
    }
    const std::vector<Override>& row = dimension.values[at];
    job.insert(job.end(), row.begin(), row.end());
  }
  return job;
}

namespace {

std::u32string characters(std::string_view text) {
  const bool is_utf8 = !invalid_utf8(text);
  std::u32string result;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (!is_utf8 || byte < 0x80) result.push_back(byte);
    else if (byte < 0xC0) result.back() = result.back() << 6 | (byte & 0x3F);
    else result.push_back(byte & (byte < 0xE0 ? 0x1F : byte < 0xF0 ? 0x0F : 0x07));
  }
  return result;
}

/// Returns the position of the ']' that closes the set opened at `open`; npos if it is not closed.
/// A ']' that comes first is a member.
std::size_t end_of_set(std::u32string_view pattern, std::size_t open) {
  std::size_t at = open + 1;
  if (at < pattern.size() && pattern[at] == '!') ++at;
  return pattern.find(U']', at + 1);
}

/// True if `character` is one of `members`, the text between the brackets.
bool is_in_set(char32_t character, std::u32string_view members) {
  const bool is_negated = members.starts_with(U'!');
  if (is_negated) members.remove_prefix(1);
  bool is_member = false;
  while (!members.empty()) {
    const bool is_range = members.size() > 2 && members[1] == '-';
    const char32_t last = is_range ? members[2] : members[0];
    is_member |= members[0] <= character && character <= last;
    members.remove_prefix(is_range ? 3 : 1);
  }
  return is_member != is_negated;
}

/// Returns the length of the pattern's element at `at`, which is not '*', if it matches
/// `character`; otherwise 0.
std::size_t length_of_match(char32_t character, std::u32string_view pattern, std::size_t at) {
  if (pattern[at] == '?') return 1;
  const std::size_t end = pattern[at] == '[' ? end_of_set(pattern, at) : pattern.npos;
  if (end == pattern.npos) return pattern[at] == character ? 1 : 0;
  return is_in_set(character, pattern.substr(at + 1, end - at - 1)) ? end - at + 1 : 0;
}

}  // namespace

bool matches_wildcard(std::string_view name_text, std::string_view pattern_text) {
  const std::u32string name = characters(name_text), pattern = characters(pattern_text);
  std::size_t in_name = 0, in_pattern = 0;
  // The latest '*' and the end of the text that it matches. Only this one ever has to be extended;
  // earlier ones never need to match more.
  std::size_t star = pattern.npos, star_end = 0;
  while (in_name < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      star_end = in_name;
      continue;
    }
    const std::size_t length =
        in_pattern < pattern.size() ? length_of_match(name[in_name], pattern, in_pattern) : 0;
    if (length > 0) {
      in_pattern += length;
      ++in_name;
    } else if (star != pattern.npos) {
      in_pattern = star + 1;
      in_name = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of(U'*', in_pattern) == pattern.npos;
}

namespace {

[[noreturn]] void bad_zip(Location where, std::string message, std::string help) {
  fail_override(where, std::move(message), std::move(help), ErrorCode::kBadFunctionCall);
}

}  // namespace

Element zip(FunctionCall call) {
  if (!call.arguments.empty() || call.named.empty()) {
    bad_zip(call.where, "zip() takes lists named by their keys",
            "write name=zip(a=[1,2],b.c=[3,4])");
  }
  Sweep result{.kind = Sweep::Kind::kZip, .where = call.where};
  for (auto& [key, element] : call.named) {
    Value* value = element.value();
    if (!value || !value->list())
      bad_zip(element.where, "the values of '" + key + "' are not a list",
              "write " + key + "=[1,2]");
    if (&key == &call.named.front().first) result.rows.resize(value->list()->size());
    if (value->list()->size() != result.rows.size()) {
      bad_zip(element.where,
              "'" + key + "' has " + std::to_string(value->list()->size()) + " values and '" +
                  call.named.front().first + "' has " + std::to_string(result.rows.size()),
              "the lists of a zip() must have the same length");
    }
    Override column;
    const SourceText name{"", key};
    try {
      read_override_key(name, 0, key.size(), column);
    } catch (OverrideError& error) {
      error.diagnostic.where = element.where;
      throw;
    }
    column.key_where = column.package_where = column.where = element.where;
    for (std::size_t row = 0; row < result.rows.size(); ++row) {
      column.value = std::move((*value->list())[row]);
      column.value_text = element_text(*column.value);
      result.rows[row].push_back(column);
    }
  }
  return {std::move(result), call.where};
}

}  // namespace runner
