#include "runner/worker/reuse.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <system_error>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/record/metrics_file.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/date.h"
#include "runner/worker/executor.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Which = ReuseOptions::Which;

constexpr std::size_t kReportedDifferences = 4;

bool is_training(const Node& node) { return family_of(node.kind) == Family::kTrain; }

std::vector<NodeMetric> metrics_of(const fs::path& run, const std::string& node) {
  std::vector<NodeMetric> metrics;
  for (MetricLine& line : read_metrics(RunLayout(run).metrics()).lines)
    metrics.push_back(std::move(line.metric));
  std::erase_if(metrics, [&](const NodeMetric& metric) { return metric.node != node; });
  return metrics;
}

}  // namespace

Reuse::Reuse(const Graph& graph, std::vector<StageFacts> facts, const RunOptions& options)
    : graph_(graph), options_(options), facts_(std::move(facts)), nodes_(graph.nodes.size()) {
  if (!options.reuse->index.empty()) index_.emplace(options.reuse->index);
  std::vector<bool> feeds(graph.nodes.size(), false), is_foreign(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    is_foreign[i] = options.trained.contains(graph.nodes[i].id);
    for (const Edge& edge : graph.nodes[i].inputs) {
      feeds[edge.from] = true;
      is_foreign[i] = is_foreign[i] || is_foreign[edge.from];
    }
  }
  const bool is_whole = !options.smoke && !options.observer;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    // A node with outputs that are not in its files cannot reuse anything.
    const Node& node = graph.nodes[i];
    const bool has_files = node.cacheable || is_training(node) || !feeds[i];
    nodes_[i].is_eligible = is_whole && has_files && !is_foreign[i];
  }
}

bool Reuse::looks_for(std::size_t index) const {
  if (!nodes_[index].is_eligible) return false;
  if (graph_.nodes[index].cacheable) return options_.reuse->which != Which::kNone;
  return options_.reuse->which == Which::kAll && !options_.resume;
}

json Reuse::document(std::size_t index) const {
  return node_document(graph_, facts_, index, options_.reuse->world);
}

fs::path Reuse::folder(std::size_t index) const {
  return RunLayout(options_.folder).node(graph_.nodes[index].id).folder();
}

std::string Reuse::key(std::size_t index) const {
  return nodes_[index].is_eligible && is_steady(index) ? document_key(document(index)) : "";
}

bool Reuse::take(std::size_t index, bool needed) {
  State& node = nodes_[index];
  const std::string wanted = key(index);
  const bool can_use = graph_.nodes[index].cacheable || is_training(graph_.nodes[index]);
  if (node.taken || wanted.empty() || wanted == node.tried || (needed && !can_use))
    return node.taken.has_value();
  node.tried = wanted;
  try {
    node.taken = take_own(index, wanted);
    if (!node.taken && looks_for(index)) node.taken = take_indexed(index, wanted);
  } catch (const std::exception&) {
    node.was_damaged = true;  // the results disappeared while being reused
  }
  return node.taken.has_value();
}

std::optional<Turn> Reuse::take_in_turn(std::size_t index, const std::function<bool()>& is_canceled,
                                        const std::function<void()>& on_wait) {
  const std::string wanted = key(index);
  if (take(index, /*needed=*/true) || wanted.empty() || !index_ || !looks_for(index))
    return std::nullopt;
  const Node& node = graph_.nodes[index];
  auto turn = Turn::take(index_->turn(node.kind, node.id, wanted), is_canceled, on_wait);
  if (!turn) return turn;
  State& state = nodes_[index];
  const bool was_damaged = state.was_damaged;  // the entry has since been removed
  state.tried.clear();
  if (take(index, /*needed=*/true)) turn.reset();
  state.was_damaged = state.was_damaged || was_damaged;
  return turn;
}

std::optional<fs::path> Reuse::find(std::size_t index) const {
  const std::string wanted = key(index);
  if (wanted.empty() || !index_ || !looks_for(index)) return std::nullopt;
  const auto found = index_->find(graph_.nodes[index].kind, graph_.nodes[index].id, wanted);
  return found ? std::optional(found->run) : std::nullopt;
}

/// Reuses results from before this run was resumed.
std::optional<Reuse::Source> Reuse::take_own(std::size_t index, const std::string& key) const {
  if (!options_.resume || !graph_.nodes[index].cacheable) return std::nullopt;
  const auto finished = read_finished(folder(index));
  if (!finished || finished->reuse_key != key || what_is_missing(folder(index), *finished))
    return std::nullopt;
  return Source{options_.folder, metrics_of(options_.folder, graph_.nodes[index].id)};
}

std::optional<Reuse::Source> Reuse::take_indexed(std::size_t index, const std::string& key) {
  if (!index_) return std::nullopt;
  const Node& node = graph_.nodes[index];
  const bool is_known = index_->has(node.kind, node.id, key);
  const auto found = index_->find(node.kind, node.id, key);
  nodes_[index].was_damaged = is_known && !found;
  if (!found) return std::nullopt;
  Source taken{found->run, metrics_of(found->run, node.id)};
  if (static_cast<std::int64_t>(taken.metrics.size()) != found->metrics) {
    index_->remove(node.kind, node.id, key);
    nodes_[index].was_damaged = true;
    return std::nullopt;
  }
  give_files(RunLayout(found->run).node(node.id).folder(), found->files, folder(index));
  const json record = {{"schema", 1}, {"from", found->run.string()}, {"key", key}};
  write_atomically(NodeLayout(folder(index)).reused(),
                   record.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  return taken;
}

void Reuse::drop(std::size_t index) {
  State& node = nodes_[index];
  if (!node.taken) return;
  node.taken.reset();
  if (index_) index_->remove(graph_.nodes[index].kind, graph_.nodes[index].id, node.tried);
  std::error_code ignored;
  for (const NodeFile& file : node_files(folder(index)))
    fs::remove(folder(index) / file.name, ignored);
  fs::remove(NodeLayout(folder(index)).reused(), ignored);
}

std::optional<std::string> Reuse::why_anew(std::size_t index) const {
  if (!looks_for(index) || nodes_[index].taken || !index_) return std::nullopt;
  if (nodes_[index].was_damaged) return "the results of an earlier run are missing or have changed";
  const Node& node = graph_.nodes[index];
  const json now = document(index);
  const auto former = index_->nearest(node.kind, node.id, now);
  const std::vector<std::string> changes =
      former ? differences(*former, now) : std::vector<std::string>();
  if (changes.empty()) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < std::min(changes.size(), kReportedDifferences); ++i)
    text += (i > 0 ? "; " : "") + changes[i];
  if (changes.size() > kReportedDifferences) {
    text += "; and " + std::to_string(changes.size() - kReportedDifferences) + " more differences";
  }
  return text;
}

void Reuse::note(std::size_t index, StageFacts facts) {
  // An empty fingerprint means that the data did not exist until the stage created it.
  const std::string& before = facts_[index].fingerprint;
  if (!before.empty() && before != facts.fingerprint) nodes_[index].is_steady = false;
  facts_[index] = std::move(facts);
}

/// False if something on which the result depends changed during this run.
bool Reuse::is_steady(std::size_t index) const {
  return nodes_[index].is_steady &&
         std::ranges::all_of(graph_.nodes[index].inputs,
                             [&](const Edge& edge) { return is_steady(edge.from); });
}

std::optional<std::string> Reuse::enter(std::size_t index, std::int64_t metrics) const {
  const std::string own = key(index);
  if (own.empty() || !index_) return std::nullopt;
  try {
    IndexedNode node{.document = document(index),
                     .run = fs::absolute(options_.folder).lexically_normal(),
                     .files = node_files(folder(index)),
                     .metrics = metrics,
                     .date = utc_time(std::chrono::system_clock::now(), "%Y-%m-%dT%H:%M:%SZ")};
    if (node.files.empty() && metrics == 0) return std::nullopt;
    index_->put(graph_.nodes[index].kind, graph_.nodes[index].id, own, node);
  } catch (const std::exception& error) {
    return "later runs cannot reuse it: " + std::string(error.what());
  }
  return std::nullopt;
}

}  // namespace runner
