#include "runner/shared/graph/node_key.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/digest.h"

namespace runner {

std::vector<std::string> node_keys(const Graph& graph) {
  std::vector<std::string> keys;
  for (const Node& node : graph.nodes) {
    nlohmann::json inputs = nlohmann::json::array();
    for (const Edge& edge : node.inputs) inputs.push_back({edge.input, keys[edge.from], edge.output});
    const nlohmann::json all = {{"kind", node.kind},
                                {"options", to_json(node.key_options ? *node.key_options : node.options)},
                                {"seed", node.seed},
                                {"inputs", std::move(inputs)}};
    keys.push_back(sha256(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
  return keys;
}

}  // namespace runner
