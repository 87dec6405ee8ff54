#include "runner/stage/certificate.h"

#include <stdexcept>

namespace runner {

using Json = nlohmann::ordered_json;

namespace {

/// JSON knows no NaN and no infinities: they are texts.
Json double_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double double_json(const Json& json) {
  return json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>();
}

}  // namespace

Json to_json(const Certificate& certificate) {
  Json parameters = Json::array();
  for (const auto& [name, error] : certificate.parameters)
    parameters.push_back({{"name", name}, {"relative_error", double_json(error)}});
  return {{"schema", 1},
          {"node", certificate.node},
          {"compared", certificate.compared},
          {"holds", certificate.holds()},
          {"worst", double_json(certificate.worst())},
          {"limit", Certificate::kLimit},
          {"parameters", std::move(parameters)},
          {"changed", certificate.changed},
          {"refused", certificate.refused}};
}

Certificate certificate_from_json(const Json& json) {
  try {
    Certificate certificate;
    certificate.node = json.at("node");
    certificate.compared = json.at("compared");
    for (const Json& parameter : json.at("parameters"))
      certificate.parameters.push_back({parameter.at("name"), double_json(parameter.at("relative_error"))});
    certificate.changed = json.at("changed").get<std::vector<std::string>>();
    certificate.refused = json.at("refused");
    return certificate;
  } catch (const std::exception& error) {  // of the JSON, or of a text that is no number_json
    throw std::runtime_error(std::string("not a certificate: ") + error.what());
  }
}

}  // namespace runner
