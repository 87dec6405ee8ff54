#include "runner/parent/serve/site.h"

#include <algorithm>
#include <random>

#include "runner/parent/page/recorded_document.h"
#include "runner/parent/report/run_progress.h"
#include "runner/parent/serve/page_events.h"
#include "runner/parent/serve/run_events.h"
#include "runner/parent/serve/run_list_document.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/parent/sweep/trial_table.h"

namespace runner {
namespace {

constexpr std::size_t kMostOffered = 100;  // maximum number of runs offered for comparison
constexpr std::string_view kEventsPath = "/events";

PageReply reply_of(const Document& document, int status = 200, const Served& served = {}) {
  return {.status = status, .body = html_page(document, served)};
}

PageReply stream_of(std::function<std::optional<std::string>()> events) {
  return {.type = "text/event-stream", .events = std::move(events)};
}

PageReply message(int status, std::string title, std::string text) {
  Document document{.title = std::move(title), .blocks = {}};
  document.say(std::move(text));
  return reply_of(document, status);
}

PageReply not_found() {
  Document document{.title = "There is no such page", .blocks = {}};
  document.say("The run or the sweep may have been removed since the list was made.");
  document.add(Links{"Pages", {{"all runs", "/"}}});
  return reply_of(document, 404);
}

/// Compares all characters, so the time taken does not reveal how many of them are correct.
bool is_same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

/// Returns a page that says what is wrong with a record, instead of its report.
Document document_of_errors(const std::string& folder, const Diagnostics& errors) {
  Document document{.title = folder, .blocks = {}};
  document.say("The record cannot be shown.");
  Table table{"Errors", {{"error", "what happened", "what to do"}}, false};
  for (const Diagnostic& one : errors)
    table.rows.push_back({name(one.code), one.message, one.help});
  document.add(std::move(table));
  return document;
}

void add_warnings(Document& document, const Diagnostics& warnings) {
  if (warnings.empty()) return;
  Table table{"Warnings", {{"warning", "what happened"}}, false};
  for (const Diagnostic& one : warnings) table.rows.push_back({name(one.code), one.message});
  document.add(std::move(table));
}

/// Puts the links and the form for a page above its report.
void add_above(Document& document, std::vector<Block> blocks) {
  document.blocks.insert(document.blocks.begin(), std::make_move_iterator(blocks.begin()),
                         std::make_move_iterator(blocks.end()));
}

/// Returns a form for comparing the run at `place` with another. Runs of the same recipe come
/// first; within each group, the most recently started come first.
Form comparison_form(const Catalog& catalog, std::size_t place) {
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < catalog.runs.size(); ++i)
    if (i != place) others.push_back(i);
  const std::string& recipe = catalog.runs[place].entry.recipe;
  const auto rank = [&](std::size_t i) {
    const RunEntry& entry = catalog.runs[i].entry;
    return std::pair(entry.recipe == recipe, std::string_view(entry.started));
  };
  std::ranges::stable_sort(others, std::ranges::greater(), rank);
  others.resize(std::min(others.size(), kMostOffered));
  Form form{"/compare", {{"a", "", catalog.ids[place]}, {"b", "compare with", ""}}, "Compare"};
  for (const std::size_t i : others)
    form.fields.back().choices.emplace_back(catalog.ids[i], catalog.runs[i].folder);
  return form;
}

}  // namespace

std::string random_token() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device random;  // glibc's implementation reads from the kernel
  std::string token;
  for (int i = 0; i < 32; ++i) token += kDigits[random() % 16];
  return token;
}

std::string Site::address() const {
  return "http://127.0.0.1:" + std::to_string(port_) + "/?token=" + token_;
}

bool Site::is_host_known(const PageRequest& request) const {
  const std::string host = request.header("host"), port = ":" + std::to_string(port_);
  return host == "127.0.0.1" + port || host == "localhost" + port;
}

PageReply Site::answer(const PageRequest& request) const {
  PageReply reply;
  const std::string token = request.field("token");
  const bool is_new = !token.empty() && is_same_secret(token, token_);
  if (!is_host_known(request)) {
    reply = message(403, "Refused", "Open the address that `retort serve` printed.");
  } else if (request.method != "GET" && request.method != "HEAD") {
    reply = message(405, "Refused", "This server only shows runs: it supports only GET and HEAD.");
    reply.headers.emplace_back("Allow", "GET, HEAD");
  } else if (!is_new && !is_same_secret(request.cookie(cookie_name()), token_)) {
    reply = message(403, "The token is missing",
                    "Open the address that `retort serve` printed: it ends in ?token=…. The token "
                    "changes each time the server starts.");
  } else {
    try {
      reply = page_at(request);
    } catch (const std::exception& error) {
      reply = message(500, "The page cannot be shown", error.what());
    }
  }
  if (is_new && reply.status != 403)
    reply.headers.emplace_back(
        "Set-Cookie", cookie_name() + "=" + token_ + "; Path=/; HttpOnly; SameSite=Strict");
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"Content-Security-Policy", page_policy(true) + "; frame-ancestors 'none'"},
           {"Cache-Control", "no-store"},
           {"Cross-Origin-Resource-Policy", "same-origin"},
           {"Referrer-Policy", "no-referrer"},
           {"X-Content-Type-Options", "nosniff"}})
    reply.headers.emplace_back(name, value);
  return reply;
}

PageReply Site::page_at(const PageRequest& request) const {
  std::string path = request.path;
  const bool has_events = path.ends_with(kEventsPath);
  if (has_events) path.resize(path.size() - kEventsPath.size());
  if (request.path == "/") return list_page(request);
  if (request.path == kEventsPath) return stream_of(list_events(catalog_, request));
  const auto catalog = catalog_.contents();
  if (request.path == "/compare") return comparison_page(*catalog, request);
  constexpr std::string_view kRun = "/run/", kSweep = "/sweep/";
  if (path.starts_with(kSweep)) {
    const CatalogSweep* const sweep = catalog->sweep(path.substr(kSweep.size()));
    if (!sweep) return not_found();
    return has_events ? stream_of(sweep_events(catalog_, sweep->id, request.field("seen")))
                      : sweep_page(*catalog, *sweep);
  }
  if (!path.starts_with(kRun)) return not_found();
  const auto place = catalog->by_id.find(path.substr(kRun.size()));
  if (place == catalog->by_id.end()) return not_found();
  return has_events ? stream_of(run_events(catalog->runs[place->second].folder))
                    : run_page(*catalog, place->second);
}

PageReply Site::list_page(const PageRequest& request) const {
  const Document document = run_list_document(catalog_, request);
  return reply_of(document, 200,
                  {.events = run_list_events(request) + "&seen=" + page_version(document)});
}

PageReply Site::run_page(const Catalog& catalog, std::size_t place) const {
  const std::string& folder = catalog.runs[place].folder;
  std::string address = "/run/" + catalog.ids[place];
  Sources sources;
  Diagnostics warnings;
  auto report = document_of_run(folder, sources, warnings);
  Document document = report ? *std::move(report) : document_of_errors(folder, report.errors());
  Links links{"Pages", {{"all runs", "/"}}};
  if (const CatalogSweep* const sweep = catalog.sweep_of[place])
    links.links.emplace_back("its sweep", "/sweep/" + sweep->id);
  links.links.emplace_back("reload", address);
  std::vector<Block> above = {std::move(links)};
  if (catalog.runs.size() > 1) above.push_back(comparison_form(catalog, place));
  add_above(document, std::move(above));
  add_warnings(document, warnings);
  const RunProgress progress = run_progress(folder);
  if (progress.status != "running") return reply_of(document);
  return reply_of(document, 200,
                  {.progress = run_line(progress), .events = address.append(kEventsPath)});
}

PageReply Site::sweep_page(const Catalog& catalog, const CatalogSweep& sweep) const {
  const std::string address = "/sweep/" + sweep.id;
  const std::string version = page_version(catalog, sweep);  // before the record is read
  Sources sources;
  const SweepLayout layout(sweep.folder);
  auto report = document_of_sweep(sweep.folder, sources, [&](std::uint64_t trial) {
    const std::string id = catalog.id_of(layout.run(trial).string());
    return id.empty() ? "" : "/run/" + id;
  });
  Document document =
      report ? *std::move(report) : document_of_errors(sweep.folder, report.errors());
  add_above(document, {Links{"Pages", {{"all runs", "/"}, {"reload", address}}}});
  return reply_of(document, 200,
                  {.events = address + std::string(kEventsPath) + "?seen=" + version});
}

PageReply Site::comparison_page(const Catalog& catalog, const PageRequest& request) const {
  const std::string first = request.field("a"), second = request.field("b");
  const auto a = catalog.by_id.find(first), b = catalog.by_id.find(second);
  if (a == catalog.by_id.end() || b == catalog.by_id.end()) return not_found();
  Sources sources;
  const std::string& folder = catalog.runs[a->second].folder;
  auto comparison = document_of_comparison(folder, catalog.runs[b->second].folder, sources);
  Document document =
      comparison ? *std::move(comparison) : document_of_errors(folder, comparison.errors());
  add_above(document, {Links{"Pages",
                             {{"all runs", "/"},
                              {"run A", "/run/" + first},
                              {"run B", "/run/" + second},
                              {"reload", "/compare?a=" + first + "&b=" + second}}}});
  return reply_of(document);
}

}  // namespace runner
