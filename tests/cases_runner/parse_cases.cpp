// parse.jsonl: an override, what Hydra parses from it, and how Hydra writes it back.

#include "tests/cases_runner/formats.h"

#include <algorithm>
#include <vector>

#include "runner/parent/config/number_range.h"
#include "runner/parent/config/override.h"
#include "runner/parent/config/scalar.h"

using runner::Override;
using runner::Sweep;
using runner::Value;
using Json = nlohmann::ordered_json;

namespace {

bool same_key(const runner::Entry& entry, const Json& recorded) {
  using runner::KeyType;
  const std::string type = recorded["t"];
  if (type == "null") return entry.key_type == KeyType::kNull;
  if (type == "bool")
    return entry.key_type == KeyType::kBool && entry.key == (recorded["v"] ? "true" : "false");
  const KeyType expected = type == "int"     ? KeyType::kInteger
                           : type == "float" ? KeyType::kFloat
                                             : KeyType::kString;
  return entry.key_type == expected && entry.key == recorded["v"];
}

bool same(const Value& value, const Json& recorded) {
  const std::string type = recorded["t"];
  if (type == "null") return value.is_null();
  if (type == "list") return value.list() && std::ranges::equal(*value.list(), recorded["v"], same);
  if (type == "dict") {
    return value.map() &&
           std::ranges::equal(*value.map(), recorded["v"], [](const auto& entry, const Json& pair) {
             return same_key(entry, pair[0]) && same(entry.value, pair[1]);
           });
  }
  const bool is_big = value.form == runner::ScalarForm::kBigInteger;
  if (type == "bool")
    return std::holds_alternative<bool>(value.data) && std::get<bool>(value.data) == recorded["v"];
  if (type == "float")
    return std::holds_alternative<double>(value.data) && scalar_text(value) == recorded["v"];
  if (type == "int") {
    return (is_big || std::holds_alternative<std::int64_t>(value.data)) &&
           scalar_text(value) == recorded["v"];
  }
  if (!value.text() || is_big || *value.text() != recorded["v"]) return false;
  const auto form = type != "qstr"          ? runner::ScalarForm::kPlain
                    : recorded["q"] == "\"" ? runner::ScalarForm::kDoubleQuoted
                                            : runner::ScalarForm::kSingleQuoted;
  return value.form == form;
}

bool same_sweep(const Sweep& sweep, const Json& recorded) {
  const std::string type = recorded["t"];
  if (recorded.contains("tags")) {
    std::vector<std::string> tags = sweep.tags, expected = recorded["tags"];
    std::ranges::sort(tags);
    std::ranges::sort(expected);
    if (tags != expected) return false;
  }
  if (recorded.value("shuffle", false) != sweep.shuffle) return false;
  switch (sweep.kind) {
    case Sweep::Kind::kSimpleChoice:
    case Sweep::Kind::kChoice:
      return type == "choice" && recorded["simple"] == (sweep.kind == Sweep::Kind::kSimpleChoice) &&
             std::ranges::equal(sweep.choices, recorded["v"], same);
    case Sweep::Kind::kRange:
      return type == "range" && same(sweep.start, recorded["start"]) &&
             same(sweep.stop, recorded["stop"]) && same(sweep.step, recorded["step"]);
    case Sweep::Kind::kInterval:
      return type == "interval" && same(sweep.start, recorded["start"]) &&
             same(sweep.stop, recorded["end"]);
    case Sweep::Kind::kGlob:
      return type == "glob" && std::ranges::equal(sweep.include, recorded["include"], same) &&
             std::ranges::equal(sweep.exclude, recorded["exclude"], same);
    case Sweep::Kind::kZip:
      return false;
  }
  return false;
}

runner::OverrideKind kind_of(const std::string& type) {
  if (type == "ADD") return runner::OverrideKind::kAdd;
  if (type == "FORCE_ADD") return runner::OverrideKind::kForceAdd;
  return type == "DEL" ? runner::OverrideKind::kDelete : runner::OverrideKind::kChange;
}

bool has_json_or_list_function(const std::string& text) {
  return text.find("json_str") != text.npos || text.find("extend_list") != text.npos;
}

/// Returns why Retort accepts an override that Hydra rejects, judged by its text; empty if there is
/// no known reason.
std::string extension(const std::string& text, const Override& read) {
  if (read.edit) return "append(), replace() and similar functions edit the existing value";
  if (read.sweep && read.sweep->kind == Sweep::Kind::kZip)
    return "zip() sweeps several keys at once";
  if (std::ranges::any_of(text, [](unsigned char c) { return c >= 0x80; }))
    return "non-ASCII letters need no quotes";
  if (text.find_first_of("#!&;<>^") != text.npos) return "# ! & ; < > ^ need no quotes";
  if (text.find('=') != text.rfind('=')) return "a later = needs no quotes";
  if (text.find_first_of("[") < text.find('=')) return "key[0] is key.0";
  if (text.ends_with(' ') || text.ends_with('\t')) return "whitespace may follow a closing quote";
  if (text.find("${") != text.npos) return "nested interpolations need no quotes";
  if (text.find('{') != text.npos && text.find_first_of("'\"") != text.npos)
    return "keys of mappings may be quoted";
  if (text.find(',') != text.npos && text.find(']') != text.npos)
    return "a list may end with a comma";
  return "";
}

/// Compares how Retort and Hydra write `value`. Hydra drops quotes and does not escape # or ', so
/// its text may not parse to the same value again. In that case, only Retort's text must.
Verdict check_text(const Override& override, const Value& value, const std::string& recorded) {
  Override one = override;
  one.sweep.reset();
  one.value = value;
  const std::string key = runner::override_text(
      {.kind = override.kind, .key = override.key, .package = override.package});
  const std::string expected = key + "=" + recorded, written = runner::override_text(one);
  if (written == expected) return Verdict::same();
  runner::Sources sources;
  const auto hydras = runner::parse_override(sources.add("", expected));
  const auto ours = runner::parse_override(sources.add("", written));
  const auto reads_back = [&](const auto& read) {
    return read && read->value && read->key == one.key && same_data(*read->value, value);
  };
  if (!reads_back(ours))
    return Verdict::different("wrote " + written + ", which does not parse to the same value");
  if (!reads_back(hydras))
    return Verdict::known_difference(
        "a string that would not parse to itself is written in quotes");
  return Verdict::different("wrote " + written + ", not " + expected);
}

Verdict check_jobs(const Override& override, const Json& recorded) {
  const Sweep& sweep = *override.sweep;
  std::vector<Value> values = sweep.choices;
  if (sweep.kind == Sweep::Kind::kRange) {
    const auto numbers = runner::NumberRange::make(sweep);
    if (!numbers && recorded.contains("jobs"))
      return Verdict::known_difference("an infinite range is rejected");
    if (!numbers) return Verdict::same();
    for (std::uint64_t i = 0; i < numbers->size(); ++i) values.push_back((*numbers)[i]);
  }
  if (!recorded.contains("jobs") || sweep.shuffle) return Verdict::same();
  if (values.size() != recorded["jobs"].size())
    return Verdict::different("lists " + std::to_string(values.size()));
  Verdict worst;
  for (std::size_t i = 0; i < values.size(); ++i) {
    Verdict verdict = check_text(override, values[i], recorded["jobs"][i]);
    if (verdict.kind == Verdict::Kind::kDifferent) return verdict;
    if (verdict.kind == Verdict::Kind::kKnownDifference) worst = std::move(verdict);
  }
  return worst;
}

Verdict check_refused(const std::string& text, const runner::Diagnostic& error,
                      const Json& recorded) {
  if (recorded["key"] == "") return Verdict::known_difference("an empty key is rejected");
  if (error.code == runner::ErrorCode::kNestedSweep)
    return Verdict::known_difference("a nested sweep is rejected");
  if (has_json_or_list_function(text))
    return Verdict::known_difference("json_str() and extend_list() are deprecated");
  return Verdict::different("rejected: " + error.message);
}

Verdict check_accepted(const Override& read, const Json& recorded) {
  if (read.kind != kind_of(recorded["type"])) return Verdict::different("has a different kind");
  if (read.key != recorded["key"]) return Verdict::different("the key is " + read.key);
  const bool has_package = !recorded["package"].is_null();
  if (read.package.has_value() != has_package ||
      (has_package && *read.package != recorded["package"])) {
    return Verdict::different("has a different package");
  }
  if (recorded["value_type"].is_null())
    return read.value ? Verdict::different("has a value") : Verdict::same();
  if (recorded["value_type"] != "ELEMENT") {
    if (!read.sweep || !same_sweep(*read.sweep, recorded["value"]))
      return Verdict::different("has a different sweep");
    return check_jobs(read, recorded);
  }
  if (!read.value || !same(*read.value, recorded["value"])) {
    const bool is_shuffled = read.value_text.find("shuffle") != std::string::npos;
    return is_shuffled
               ? Verdict::known_difference("lists are shuffled with a different random generator")
               : Verdict::different("has a different value");
  }
  if (recorded.contains("canonical") && recorded["canonical"].is_string()) {
    return check_text(read, *read.value, recorded["canonical"]);
  }
  return Verdict::same();
}

}  // namespace

Verdict check_parse(const Json& recorded, const std::filesystem::path&) {
  const std::string text = recorded["in"];
  runner::Sources sources;
  const auto read = runner::parse_override(sources.add("override", text));
  Verdict verdict;
  if (!recorded["ok"]) {
    if (!read) return Verdict::same();
    const std::string reason = extension(text, *read);
    verdict = reason.empty() ? Verdict::different("accepted")
                             : Verdict::known_difference("accepted: " + reason);
  } else {
    verdict =
        read ? check_accepted(*read, recorded) : check_refused(text, read.errors()[0], recorded);
  }
  if (verdict.kind == Verdict::Kind::kDifferent) verdict.text = text + ": " + verdict.text;
  return verdict;
}
