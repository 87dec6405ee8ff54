#include "runner/shared/stage/plan_context.h"

#include "runner/shared/value/json_fields.h"

namespace runner {

using Json = nlohmann::ordered_json;

Json to_json(const Certificate& certificate) {
  Json parameters = Json::array();
  for (const auto& [name, error] : certificate.parameters)
    parameters.push_back({{"name", name}, {"relative_error", number_json(error)}});
  return {{"schema", 1},
          {"node", certificate.node},
          {"compared", certificate.compared},
          {"holds", certificate.holds()},
          {"worst", number_json(certificate.worst())},
          {"limit", certificate.limit},
          {"parameters", std::move(parameters)},
          {"changed", certificate.changed},
          {"refused", certificate.refused}};
}

Certificate certificate_from_json(const Json& json) {
  const JsonFields fields(json, "the certificate");
  fields.only({"schema", "node", "compared", "holds", "worst", "limit", "parameters", "changed",
               "refused"});
  Certificate certificate;
  certificate.node = fields.text("node");
  certificate.compared = fields.text("compared");
  for (const Json& parameter : fields.list("parameters")) {
    const JsonFields one(parameter, "a parameter of the certificate");
    one.only({"name", "relative_error"});
    certificate.parameters.push_back({one.text("name"), one.number("relative_error")});
  }
  certificate.changed = fields.texts("changed");
  certificate.refused = fields.text("refused");
  certificate.limit = fields.number("limit");
  return certificate;
}

}  // namespace runner
