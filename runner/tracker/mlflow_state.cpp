#include "runner/tracker/mlflow_state.h"

#include <bit>
#include <fstream>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using nlohmann::json;

/// FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/.
std::uint64_t hashed_on(std::uint64_t hash, std::string_view bytes) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return hash;
}

json state_json(const MlflowState& state) {
  json sent = json::object();
  for (const auto& [node, metrics] : state.sent)
    sent[node] = {{"count", metrics.count}, {"digest", metrics.digest}};
  return {{"server", state.server}, {"key", state.key},
          {"began", state.began},   {"experiment_id", state.experiment},
          {"run_id", state.run},    {"described", state.is_described},
          {"sent", std::move(sent)}};
}

MlflowState state_from(const json& entry) {
  const JsonFields<json> fields(entry, "the state of a server");
  MlflowState state{.server = fields.text("server"),
                    .key = fields.text("key"),
                    .began = fields.integer("began"),
                    .experiment = fields.text("experiment_id"),
                    .run = fields.text("run_id"),
                    .is_described = fields.flag("described")};
  for (const auto& [node, one] : fields.object("sent").items()) {
    const JsonFields<json> metrics(one, "what was sent");
    state.sent[node].count = metrics.count("count");
    state.sent[node].digest = metrics.seed("digest");
  }
  return state;
}

/// Returns the states in the file; for a damaged file, returns none, so everything is sent again.
std::vector<MlflowState> states_in(const std::filesystem::path& path) {
  std::ifstream file = open_regular(path);
  const json all = parse_json<json>(file);
  std::vector<MlflowState> states;
  try {
    for (const json& entry : JsonFields<json>(all, "the file").list("runs"))
      states.push_back(state_from(entry));
  } catch (const std::runtime_error&) {
  }
  return states;
}

}  // namespace

void SentMetrics::add(const MetricLine& line) {
  ++count;
  digest = hashed_on(digest, line.metric.name);
  for (const std::uint64_t number : {static_cast<std::uint64_t>(line.metric.step),
                                     std::bit_cast<std::uint64_t>(line.metric.value)}) {
    digest = hashed_on(digest, {reinterpret_cast<const char*>(&number), sizeof number});
  }
}

std::optional<MlflowState> read_mlflow_state(const std::filesystem::path& path,
                                             const std::string& server) {
  for (MlflowState& state : states_in(path))
    if (state.server == server) return std::move(state);
  return std::nullopt;
}

void write_mlflow_state(const std::filesystem::path& path, const MlflowState& state,
                        Storage& storage) {
  json runs = json::array();
  for (const MlflowState& other : states_in(path))
    if (other.server != state.server) runs.push_back(state_json(other));
  runs.push_back(state_json(state));
  write_atomically(path, json{{"schema", 1}, {"runs", std::move(runs)}}.dump(1) + "\n", storage);
}

}  // namespace runner
