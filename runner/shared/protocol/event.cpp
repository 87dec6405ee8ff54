#include "runner/shared/protocol/event.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <stdexcept>

#include "runner/shared/value/json_fields.h"
#include "runner/shared/value/parse_json.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDeepestEvent = 64;
constexpr int kMaxThreads = 1 << 20;

Json diagnostic_fields(const Diagnostic& d) {
  Json json = {{"severity", d.severity == Severity::kError ? "error" : "warning"},
               {"code", name(d.code)},
               {"message", d.message},
               {"pointer", d.pointer},
               {"help", d.help},
               {"notes", Json::array()}};
  for (const Note& note : d.notes) json["notes"].push_back(note.message);
  return json;
}

struct ToJson {
  Json operator()(const Hello& e) const {
    return {
        {"event", "hello"}, {"protocol", e.protocol}, {"build", e.build}, {"versions", e.versions}};
  }
  Json operator()(const Ready& e) const {
    return {{"event", "ready"},
            {"device", e.device},
            {"threads", e.threads},
            {"variables", e.variables}};
  }
  Json operator()(const Joined& e) const { return {{"event", "joined"}, {"folder", e.folder}}; }
  Json operator()(const Reported& e) const {
    Json json = {{"event", "diagnostic"}};
    json.update(diagnostic_fields(e.diagnostic));
    return json;
  }
  Json operator()(const NodeStarted& e) const {
    return {{"event", "node_started"}, {"node", e.node}};
  }
  Json operator()(const Reused& e) const {
    return {{"event", "reused"}, {"node", e.node}, {"run", e.run}};
  }
  Json operator()(const Resumed& e) const {
    return {{"event", "resumed"}, {"node", e.node}, {"metrics", e.metrics}, {"step", e.step}};
  }
  Json operator()(const Recovered& e) const {
    Json json = {{"event", "recovered"}, {"node", e.node}};
    json.update(to_json(e.recovery));
    return json;
  }
  Json operator()(const Stranded& e) const {
    return {{"event", "stranded"},
            {"node", e.node},
            {"to", e.to},
            {"retries", e.retries},
            {"error", diagnostic_fields(e.error)},
            {"incident", to_json(e.incident)}};
  }
  Json operator()(const Flush& e) const { return {{"event", "flush"}, {"node", e.node}}; }
  Json operator()(const NodeProgress& e) const {
    const Progress& p = e.progress;
    return {{"event", "progress"},
            {"node", e.node},
            {"phase", p.phase},
            {"epoch", p.epoch},
            {"epochs", p.epochs},
            {"step", p.step},
            {"steps", p.steps},
            {"samples_per_second", number_json(p.samples_per_second)},
            {"loss", number_json(p.loss)},
            {"seconds_left", number_json(p.seconds_left)},
            {"memory_bytes", p.memory_bytes},
            {"budget_bytes", p.budget_bytes},
            {"bytes", p.bytes},
            {"bytes_in_all", p.bytes_in_all},
            {"bytes_per_second", number_json(p.bytes_per_second)}};
  }
  Json operator()(const NodeMetric& e) const {
    return {{"event", "metric"},
            {"node", e.node},
            {"name", e.name},
            {"value", number_json(e.value)},
            {"step", e.step}};
  }
  Json operator()(const NodeHistogram& e) const {
    return {{"event", "histogram"},
            {"node", e.node},
            {"name", e.name},
            {"buckets", to_json(e.buckets)},
            {"step", e.step}};
  }
  Json operator()(const Said& e) const {
    return {{"event", "say"}, {"node", e.node}, {"line", e.line}};
  }
  Json operator()(const Logged& e) const {
    return {{"event", "log"}, {"level", name(e.level)}, {"node", e.node}, {"line", e.line}};
  }
  Json operator()(const NodeFinished& e) const {
    return {{"event", "node_finished"},
            {"node", e.node},
            {"seconds", number_json(e.seconds)},
            {"peak_memory_bytes", e.peak_memory_bytes}};
  }
  Json operator()(const Item& e) const { return {{"event", "item"}, {"item", e.json}}; }
  Json operator()(const Answer& e) const { return {{"event", "answer"}, {"answer", e.json}}; }
  Json operator()(const Finished& e) const { return {{"event", "finished"}, {"exit", e.exit}}; }
};

using Fields = JsonFields<Json>;

ErrorCode error_code(const std::string& text) {
  if (const auto code = error_code_named(text)) return *code;
  throw std::runtime_error("unknown error code '" + text + "'");
}

Event hello(const Fields& f) {
  const std::int64_t protocol = f.integer("protocol");
  return Hello{protocol == kProtocolVersion
                   ? kProtocolVersion
                   : static_cast<int>(std::clamp<std::int64_t>(protocol, -1, 1 << 30)),
               f.text("build"), f.at("versions")};
}
Event ready(const Fields& f) {
  const std::int64_t threads = f.integer("threads");
  if (threads < 1 || threads > kMaxThreads) throw std::runtime_error("'threads' is out of range");
  const Json& variables = f.object("variables");
  for (const Json& value : variables) {
    if (!value.is_string()) throw std::runtime_error("a variable is not a string");
  }
  return Ready{f.text("device"), static_cast<int>(threads), variables};
}
Event joined_event(const Fields& f) { return Joined{f.text("folder")}; }
Diagnostic diagnostic_from(const Fields& f) {
  Diagnostic result{
      error_code(f.text("code")), {}, f.text("pointer"), f.text("message"), f.text("help")};
  const std::string severity = f.text("severity");
  if (severity != "error" && severity != "warning")
    throw std::runtime_error("unknown severity '" + severity + "'");
  result.severity = severity == "error" ? Severity::kError : Severity::kWarning;
  for (const Json& note : f.list("notes")) {
    if (!note.is_string()) throw std::runtime_error("a note is not a string");
    result.notes.push_back({{}, note.get<std::string>()});
  }
  return result;
}
Event diagnostic(const Fields& f) { return Reported{diagnostic_from(f)}; }
Event node_started(const Fields& f) { return NodeStarted{f.text("node")}; }
Event reused(const Fields& f) { return Reused{f.text("node"), f.text("run")}; }
Event resumed(const Fields& f) {
  return Resumed{f.text("node"), f.integer("metrics"), f.integer("step")};
}
Recovery recovery_from(const Fields& f) {
  return {f.text("cause"),    f.text("phase"),    f.integer("step"), f.integer("tried"),
          f.integer("taken"), f.integer("limit"), f.text("from"),    f.text("to")};
}
Event recovered(const Fields& f) { return Recovered{f.text("node"), recovery_from(f)}; }
Event stranded(const Fields& f) {
  Stranded result{f.text("node"),
                  {},
                  f.integer("retries"),
                  diagnostic_from(Fields(f.object("error"), "an error")),
                  recovery_from(Fields(f.object("incident"), "an incident"))};
  for (const Json& device : f.list("to")) {
    if (!device.is_string()) throw std::runtime_error("a device is not a string");
    result.to.push_back(device.get<std::string>());
  }
  return result;
}
Event flush(const Fields& f) { return Flush{f.text("node")}; }
Event progress(const Fields& f) {
  Progress p;
  p.phase = f.text("phase");
  p.epoch = f.integer("epoch");
  p.epochs = f.integer("epochs");
  p.step = f.integer("step");
  p.steps = f.integer("steps");
  p.samples_per_second = f.number("samples_per_second");
  p.loss = f.number("loss");
  p.seconds_left = f.number("seconds_left");
  p.memory_bytes = f.integer("memory_bytes");
  p.budget_bytes = f.integer("budget_bytes");
  p.bytes = f.integer("bytes");
  p.bytes_in_all = f.integer("bytes_in_all");
  p.bytes_per_second = f.number("bytes_per_second");
  return NodeProgress{f.text("node"), std::move(p)};
}
Event metric(const Fields& f) {
  return NodeMetric{f.text("node"), f.text("name"), f.number("value"), f.integer("step")};
}
Event histogram(const Fields& f) {
  return NodeHistogram{f.text("node"), f.text("name"), buckets_from_json(f.list("buckets")),
                       f.integer("step")};
}
Event say(const Fields& f) { return Said{f.text("node"), f.text("line")}; }
Event log(const Fields& f) {
  const std::string word = f.text("level");
  const auto level = log_level_named(word);
  if (!level || level == LogLevel::kOff) throw std::runtime_error("unknown level '" + word + "'");
  return Logged{*level, f.text("node"), f.text("line")};
}
Event node_finished(const Fields& f) {
  return NodeFinished{f.text("node"), f.number("seconds"), f.integer("peak_memory_bytes")};
}
Event item(const Fields& f) { return Item{f.at("item")}; }
Event answer(const Fields& f) { return Answer{f.at("answer")}; }
Event finished(const Fields& f) {
  const std::int64_t exit = f.integer("exit");
  if (exit < 0 || exit > 255) throw std::runtime_error("'exit' is not an exit code");
  return Finished{static_cast<int>(exit)};
}

struct EventParser {
  std::string_view name;
  Event (*parse)(const Fields&);
};
constexpr std::array kParsers = {
    EventParser{"hello", hello},
    EventParser{"ready", ready},
    EventParser{"joined", joined_event},
    EventParser{"diagnostic", diagnostic},
    EventParser{"node_started", node_started},
    EventParser{"resumed", resumed},
    EventParser{"reused", reused},
    EventParser{"progress", progress},
    EventParser{"metric", metric},
    EventParser{"histogram", histogram},
    EventParser{"say", say},
    EventParser{"log", log},
    EventParser{"recovered", recovered},
    EventParser{"stranded", stranded},
    EventParser{"flush", flush},
    EventParser{"node_finished", node_finished},
    EventParser{"item", item},
    EventParser{"answer", answer},
    EventParser{"finished", finished},
};

}  // namespace

nlohmann::ordered_json to_json(const Recovery& recovery) {
  return {{"cause", recovery.cause}, {"phase", recovery.phase}, {"step", recovery.step},
          {"tried", recovery.tried}, {"taken", recovery.taken}, {"limit", recovery.limit},
          {"from", recovery.from},   {"to", recovery.to}};
}

Json to_json(const std::vector<HistogramBucket>& buckets) {
  Json list = Json::array();
  for (const auto& [left, right, count] : buckets)
    list.push_back(Json::array({left, right, count}));
  return list;
}

std::vector<HistogramBucket> buckets_from_json(const Json& json) {
  std::vector<HistogramBucket> buckets;
  for (const Json& one : json) {
    const bool is_bucket = one.is_array() && one.size() == 3 && one[0].is_number() &&
                           one[1].is_number() && one[2].is_number_integer();
    if (!is_bucket) throw std::runtime_error("a bucket is not [left, right, count]");
    buckets.push_back({one[0], one[1], one[2]});
  }
  return buckets;
}

std::string to_line(const Event& event) {
  // File names are not necessarily UTF-8, but must still be shown.
  return std::visit(ToJson{}, event).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Event event_from_line(std::string_view line) {
  if (nests_deeper(line, kDeepestEvent)) throw std::runtime_error("nested too deeply");
  const Json json = parse_json<Json>(line);
  if (json.is_discarded()) throw std::runtime_error("not JSON");
  try {
    const Fields fields(json, "an event");
    const std::string name = fields.text("event");
    const auto found = std::ranges::find(kParsers, name, &EventParser::name);
    if (found == kParsers.end()) throw std::runtime_error("unknown event '" + name + "'");
    return found->parse(fields);
  } catch (const Json::exception&) {
    throw std::runtime_error("not JSON");
  }
}

}  // namespace runner
