#include "stages/data/fetched_list.h"

#include <cassert>
#include <string>
#include <utility>

#include "runner/stage/stage.h"
#include "stages/data/fetch_dataset.h"

namespace stages {

FetchedList::FetchedList(std::string_view name, const std::filesystem::path& root, bool download, Lister lister)
    : FetchedList(
          download && !has_dataset(name, root),
          [name = std::string(name), root](const FetchCallbacks& callbacks) { fetch_dataset(name, root, callbacks); },
          std::move(lister)) {}

FetchedList::FetchedList(bool is_to_be_fetched, Fetcher fetcher, Lister lister)
    : fetcher_(std::move(fetcher)), lister_(std::move(lister)) {
  if (!is_to_be_fetched) list();
}

void FetchedList::list() {
  auto listed = lister_();
  if (listed) list_ = *std::move(listed);
  else problems_ = listed.errors();
}

const ImageList& FetchedList::get(runner::RunContext& context) {
  if (!list_ && context.folder().empty()) {
    throw runner::StageError(runner::ErrorCode::kMissingFolder,
                             "the data is not here yet, and planning does not fetch it")
        .at("/root")
        .with_help("`retort run` fetches it, and so does `retort data fetch`");
  }
  if (!list_) {
    assert(problems_.empty());
    fetcher_(callbacks_of(context));
    list();
  }
  if (problems_.empty()) return *list_;
  const runner::Diagnostic& first = problems_.front();
  throw runner::StageError(first.code, first.message).at("/root").with_help(first.help);
}

}  // namespace stages
