#include "runner/run/prediction_output.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/text/csv.h"
#include "runner/error/diagnostic.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

const Json& field(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (!object.is_object() || found == object.end())
    throw std::runtime_error("a prediction without '" + std::string(key) + "'");
  return *found;
}

std::string cell_text(const Json& object, const char* key) {
  if (!field(object, key).is_string())
    throw std::runtime_error("a prediction whose '" + std::string(key) + "' is no text");
  return field(object, key);
}

double number(const Json& object, const char* key) {
  if (!field(object, key).is_number())
    throw std::runtime_error("a prediction whose '" + std::string(key) + "' is no number");
  return field(object, key);
}

}  // namespace

PredictionOutput::PredictionOutput(PredictionFormat format, Append append, std::ostream& talk, bool color)
    : format_(format), append_(std::move(append)), talk_(talk), color_(color) {}

void PredictionOutput::take(const Json& item) {
  if (!item.is_object()) throw std::runtime_error("a prediction that is no object");
  if (item.contains("code")) return tell_unreadable(item);
  switch (format_) {
    case PredictionFormat::kCsv:
      write_csv(item);
      break;
    case PredictionFormat::kJsonLines:
      append_(item.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
      break;
  }
  ++images_;
}

void PredictionOutput::tell_unreadable(const Json& item) {
  const auto known = all_errors();
  const std::string code = cell_text(item, "code");
  const auto found = std::ranges::find(known, code, [](const ErrorInfo& error) { return name(error.code); });
  if (found == known.end()) throw std::runtime_error("a prediction with an unknown code");
  print(talk_, {found->code, {}, "", cell_text(item, "message"), ""}, color_);
  ++failed_;
}

void PredictionOutput::write_csv(const Json& item) {
  const Json& classes = field(item, "classes");
  if (!classes.is_array()) throw std::runtime_error("a prediction whose 'classes' are not a list");
  std::vector<std::string> header = {"file"}, line = {cell_text(item, "file")};
  for (const Json& one : classes) {
    const std::string rank = std::to_string(header.size() / 2 + 1);
    header.insert(header.end(), {"class_" + rank, "probability_" + rank});
    line.insert(line.end(), {cell_text(one, "class"), csv_number(number(one, "probability"))});
  }
  append_((has_header_ ? "" : csv_line(header)) + csv_line(line));
  has_header_ = true;
}

}  // namespace runner
