#include "stages/data/captions.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/suggest.h"

namespace stages {
namespace {

constexpr const char* kBracesHelp = "write a field as {name}, and a literal brace as {{ or }}";
constexpr std::size_t kListedFields = 40;

std::string in_braces(const std::string& field) { return "{" + runner::printable(field) + "}"; }

}  // namespace

CaptionTemplate::CaptionTemplate(std::string_view text) : text_(text), literals_(1) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter != '{' && letter != '}') {
      literals_.back() += letter;
      continue;
    }
    if (text.substr(at + 1).starts_with(letter)) {
      literals_.back() += letter;
      ++at;
      continue;
    }
    if (letter == '}') throw std::invalid_argument("it has a closing brace without an opening one");
    const std::size_t end = text.find_first_of("{}", at + 1);
    if (end == text.npos || text[end] != '}')
      throw std::invalid_argument("it has a brace that is never closed");
    if (end == at + 1) throw std::invalid_argument("it has braces without a field name");
    fields_.emplace_back(text.substr(at + 1, end - at - 1));
    literals_.emplace_back();
    at = end;
  }
}

std::string CaptionTemplate::filled(std::span<const std::string_view> values) const {
  std::string caption = literals_.front();
  for (std::size_t i = 0; i < fields_.size(); ++i)
    caption.append(values[i]).append(literals_[i + 1]);
  return caption;
}

Captions compose_captions(std::span<const CaptionTemplate> templates, const ImageFacts& facts) {
  Captions captions;
  if (templates.empty()) return captions;
  captions.of.resize(facts.rows.size());
  std::unordered_map<std::string, std::int64_t> places;
  for (const CaptionTemplate& one : templates) {
    std::vector<std::size_t> columns;
    for (const std::string& field : one.fields())
      columns.push_back(
          static_cast<std::size_t>(std::ranges::find(facts.fields, field) - facts.fields.begin()));
    std::vector<std::string_view> values(columns.size());
    for (std::size_t row = 0; row < facts.rows.size(); ++row) {
      for (std::size_t i = 0; i < columns.size(); ++i) values[i] = facts.rows[row].at(columns[i]);
      std::string caption = runner::printable(one.filled(values));
      const auto next = static_cast<std::int64_t>(captions.texts.size());
      const auto [place, is_new] = places.emplace(std::move(caption), next);
      if (is_new) captions.texts.push_back(place->first);
      captions.of[row].push_back(place->second);
    }
  }
  return captions;
}

std::vector<CaptionTemplate> read_captions(runner::ConfigReader& reader) {
  std::vector<std::string> texts;
  const runner::Value* const value = reader.raw("caption");
  if (value && value->list()) reader.read("caption", texts);
  else if (value && value->text()) reader.read("caption", texts.emplace_back());
  std::vector<CaptionTemplate> templates;
  for (const std::string& text : texts) {
    try {
      templates.emplace_back(text);
    } catch (const std::invalid_argument& problem) {
      reader.fail("caption", runner::ErrorCode::kNotAllowedValue,
                  "the caption '" + runner::printable(text) + "' cannot be read: " + problem.what(),
                  kBracesHelp);
    }
  }
  return templates;
}

std::vector<CaptionTemplate> read_captions(runner::ConfigReader& reader,
                                           const std::vector<std::string>& fields) {
  std::vector<CaptionTemplate> templates = read_captions(reader);
  for (const runner::Diagnostic& problem : unknown_fields(templates, fields))
    reader.fail(problem.pointer.substr(1), problem.code, problem.message, problem.help);
  return templates;
}

runner::Diagnostics unknown_fields(std::span<const CaptionTemplate> templates,
                                   std::span<const std::string> fields) {
  std::vector<std::string> known;
  std::ranges::transform(fields, std::back_inserter(known), in_braces);
  runner::Diagnostics errors;
  for (const CaptionTemplate& one : templates) {
    std::vector<std::string> unknown;
    for (const std::string& field : one.fields()) {
      const std::string shown = in_braces(field);
      if (std::ranges::find(fields, field) == fields.end() &&
          std::ranges::find(unknown, shown) == unknown.end())
        unknown.push_back(shown);
    }
    if (unknown.empty()) continue;
    const std::string near = runner::did_you_mean(unknown.front(), known);
    errors.push_back(
        {runner::ErrorCode::kNotAllowedValue,
         {},
         "/caption",
         "the caption '" + runner::printable(one.text()) + "' names " +
             runner::join(unknown, ", ") + ", but there is no such field",
         (near.empty() ? "" : near + " ") + ("fields are " + runner::listed(known, kListedFields) +
                                             "; write a literal brace as {{ or }}")});
  }
  return errors;
}

}  // namespace stages
