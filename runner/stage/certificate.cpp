#include "runner/stage/certificate.h"

#include <stdexcept>

#include "runner/value/json_number.h"

namespace runner {

using Json = nlohmann::ordered_json;

namespace {

double error_from_json(const Json& json) {
  if (const auto error = number_from_json(json)) return *error;
  throw std::runtime_error("a relative error is not a number");
}

}  // namespace

Json to_json(const Certificate& certificate) {
  Json parameters = Json::array();
  for (const auto& [name, error] : certificate.parameters)
    parameters.push_back({{"name", name}, {"relative_error", number_json(error)}});
  return {{"schema", 1},
          {"node", certificate.node},
          {"compared", certificate.compared},
          {"holds", certificate.holds()},
          {"worst", number_json(certificate.worst())},
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
      certificate.parameters.push_back({parameter.at("name"), error_from_json(parameter.at("relative_error"))});
    certificate.changed = json.at("changed").get<std::vector<std::string>>();
    certificate.refused = json.at("refused");
    return certificate;
  } catch (const std::exception& error) {  // of the JSON, or of error_from_json()
    throw std::runtime_error(std::string("not a certificate: ") + error.what());
  }
}

}  // namespace runner
