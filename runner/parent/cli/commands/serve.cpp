#include <chrono>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/run/worker_process.h"
#include "runner/parent/serve/http_server.h"
#include "runner/parent/serve/run_catalog.h"
#include "runner/parent/serve/site.h"
#include "runner/shared/text/printable.h"

namespace runner {
namespace {

struct ServeFlags {
  std::string folder;
  std::int64_t port = 8765;
};

ExitCode serve(const ServeFlags& flags, Console& console) {
  auto opened = HttpServer::open(static_cast<int>(flags.port));
  if (!opened) return report(console, opened.errors());
  ListingRequest request;
  if (!flags.folder.empty()) request.folders.emplace_back(flags.folder);
  if (!console.is_quiet() && !console.json) {
    request.before_reading = [&console, is_first = true](const std::string& folder,
                                                         std::size_t runs) mutable {
      if (std::exchange(is_first, false))
        console.err << "reading the records of " << runs << " runs in '" << printable(folder)
                    << "'\n";
    };
  }
  RunCatalog catalog(std::move(request), run_index_folder());
  if (const auto contents = catalog.refresh(); !contents) return report(console, contents.errors());
  SignalWait wait;  // before any thread starts, so that all other threads leave signals to this one
  const Site site(catalog, random_token(), opened->port());
  HttpServer server = *std::move(opened);  // destroyed before the site
  server.start([&site](const PageRequest& request) { return site.answer(request); });
  catalog.keep_fresh();
  if (console.json)
    print_result(console, "serve/1", {{"address", site.address()}, {"port", server.port()}});
  else console.out << site.address() << "\n";
  console.out.flush();
  if (!console.out) return ExitCode::kDone;  // finish() reports it
  while (true)
    if (const auto signal = wait(std::chrono::hours(1)))
      return exit_code_of_stop(*signal, /*has_saved=*/false);
}

Invocation declare_serve() {
  const auto flags = std::make_shared<ServeFlags>();
  Invocation verb;
  verb.json_summary = "Print the address as JSON on standard output";
  verb.add({.name = "folder",
            .value = &flags->folder,
            .summary = "A folder that contains runs and sweeps; default: outputs/ and multirun/",
            .type = "DIR"});
  verb.add({.name = "--port",
            .value = &flags->port,
            .summary = "The port on 127.0.0.1; 0: any free one",
            .type = "N",
            .range = {0, 65535},
            .shows_default = true});
  verb.run = [flags](Console& console) { return serve(*flags, console); };
  return verb;
}

}  // namespace

const Command kServeCommand = {
    "serve",
    "Shows runs and sweeps in the browser: lists, reports, comparisons and runs in progress.",
    "retort serve outputs", declare_serve};

}  // namespace runner
