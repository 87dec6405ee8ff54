#include "runner/parent/run/prediction_output.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/text/csv.h"
#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Fields = JsonFields<Json>;

/// Adds the columns of an ensemble's prediction.
void add_votes(const Fields& fields, std::vector<std::string>& header,
               std::vector<std::string>& line) {
  header.insert(header.end(), {"prediction", "tied", "margin"});
  const Json& prediction = fields.at("prediction");
  line.insert(line.end(),
              {prediction.is_null() ? "" : fields.text("prediction"),
               fields.flag("tied") ? "true" : "false", csv_number(fields.number("margin"))});
  for (const auto& [prefix, key] : {std::pair("votes_", "votes"), std::pair("p_", "pairs")}) {
    const Json& numbers = fields.object(key);
    for (const auto& [name, value] : numbers.items()) {
      header.push_back(prefix + name);
      line.push_back(csv_number(Fields(numbers, "its '" + std::string(key) + "'").number(name)));
    }
  }
}

}  // namespace

PredictionOutput::PredictionOutput(PredictionFormat format, Append append, std::ostream& err,
                                   bool color)
    : format_(format), append_(std::move(append)), err_(err), color_(color) {}

void PredictionOutput::take(const Json& item) {
  const Fields fields(item, "a prediction");
  if (item.contains("code")) return take_unreadable(fields.text("code"), fields.text("message"));
  switch (format_) {
    case PredictionFormat::kCsv:
    case PredictionFormat::kShownCsv:
      write_csv(item);
      break;
    case PredictionFormat::kJsonLines:
      append_(printable_json(item.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n");
      break;
  }
  ++images_;
}

void PredictionOutput::take_unreadable(const std::string& code, const std::string& message) {
  const auto known = error_code_named(code);
  if (!known) throw std::runtime_error("a prediction has an unknown 'code'");
  unreadable_.push_back({*known, {}, "", message, ""});
  if (format_ != PredictionFormat::kJsonLines) print(err_, unreadable_.back(), color_);
}

void PredictionOutput::write_csv(const Json& item) {
  const Fields fields(item, "a prediction");
  std::vector<std::string> header = {"file"}, line = {fields.text("file")};
  if (item.contains("votes")) {
    add_votes(fields, header, line);
    return append(header, line);
  }
  if (item.contains("outputs")) {
    const Json& outputs = fields.list("outputs");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].is_number())
        throw std::runtime_error("a prediction has an output that is not a number");
      header.push_back(outputs.size() == 1 ? "output" : "output_" + std::to_string(i));
      line.push_back(csv_number(outputs[i].get<double>()));
    }
    return append(header, line);
  }
  if (item.contains("values")) {
    const Json& values = fields.object("values");
    for (const auto& [name, value] : values.items()) {
      header.push_back(name);
      line.push_back(csv_number(Fields(values, "its 'values'").number(name)));
    }
    return append(header, line);
  }
  if (item.contains("labels")) {
    header.emplace_back("labels");
    line.push_back(join(fields.texts("labels"), "|"));
  }
  if (item.contains("prediction")) {
    header.emplace_back("prediction");
    line.push_back(fields.text("prediction"));
  }
  std::int64_t place = 0;
  for (const Json& one : fields.list("classes")) {
    const Fields likely(one, "a class of a prediction");
    const std::string rank = std::to_string(++place);
    header.insert(header.end(), {"class_" + rank, "probability_" + rank});
    line.insert(line.end(), {likely.text("class"), csv_number(likely.number("probability"))});
  }
  append(header, line);
}

void PredictionOutput::append(std::vector<std::string> header, std::vector<std::string> line) {
  if (format_ == PredictionFormat::kShownCsv) {
    for (auto* cells : {&header, &line})
      for (std::string& cell : *cells) cell = printable(cell);
  }
  append_((has_header_ ? "" : csv_line(header)) + csv_line(line));
  has_header_ = true;
}

}  // namespace runner
