#include "runner/parent/serve/page_events.h"

#include <memory>
#include <utility>

#include <sys/stat.h>

#include "runner/parent/serve/run_list_document.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/disk/digest.h"

namespace runner {
namespace {

constexpr int kCallsFromReportToReport = 5;
constexpr std::size_t kDigitsOfVersion = 16;

std::string version_from(const std::string& text) {
  return sha256(text).substr(0, kDigitsOfVersion);
}

/// Compares the versions of a page.
class FollowedPage {
 public:
  explicit FollowedPage(std::string seen) : seen_(std::move(seen)) {}

  /// `version` returns the current version. It is called only if an event may be sent.
  template <typename Version>
  std::string event_for(const Version& version) {
    if (rest_ > 0 && --rest_ > 0) return "";
    std::string now = version();
    if (now == seen_) return "";
    seen_ = std::move(now);
    rest_ = kCallsFromReportToReport;
    return "event: report\ndata: changed\n\n";
  }

 private:
  std::string seen_;
  int rest_ = 0;  // calls until the next event may be sent
};

class FollowedList {
 public:
  FollowedList(RunCatalog& catalog, PageRequest request)
      : catalog_(catalog), request_(std::move(request)), page_(request_.field("seen")) {}

  std::string next() {
    return page_.event_for([this] {
      auto contents = catalog_.contents();
      if (contents != contents_) {
        contents_ = std::move(contents);
        version_ = page_version(run_list_document(catalog_, request_));
      }
      return version_;
    });
  }

 private:
  RunCatalog& catalog_;
  const PageRequest request_;
  FollowedPage page_;
  std::shared_ptr<const Catalog> contents_;  // the catalog from which version_ was computed
  std::string version_;
};

/// Returns a string that changes when the file does.
std::string stamp_text(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return "";
  return std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

}  // namespace

std::string page_version(const Document& document) {
  Document contents{.title = document.title, .blocks = {}};
  for (const Block& block : document.blocks)
    if (!std::holds_alternative<Form>(block)) contents.add(block);
  return version_from(html_page(contents));
}

std::string page_version(const Catalog& catalog, const CatalogSweep& sweep) {
  std::string text = stamp_text(SweepLayout(sweep.folder).journal());
  for (const std::size_t place : sweep.trials) {
    const ListedRun& trial = catalog.runs[place];
    text += "\n" + trial.folder + "\n" + trial.entry.status + " " +
            std::to_string(trial.entry.seconds) + " " + std::to_string(trial.headline);
  }
  return version_from(text);
}

std::function<std::optional<std::string>()> list_events(RunCatalog& catalog, PageRequest request) {
  return [followed = std::make_shared<FollowedList>(catalog, std::move(request))] {
    return std::optional(followed->next());
  };
}

std::function<std::optional<std::string>()> sweep_events(RunCatalog& catalog, std::string id,
                                                         std::string seen) {
  return [&catalog, id = std::move(id),
          page = std::make_shared<FollowedPage>(std::move(seen))]() -> std::optional<std::string> {
    const auto contents = catalog.contents();
    const CatalogSweep* const sweep = contents->sweep(id);
    if (!sweep) return std::nullopt;
    return page->event_for([&] { return page_version(*contents, *sweep); });
  };
}

}  // namespace runner
