#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/fetch/download.h"
#include "stages/fetch/unpack.h"

namespace stages {

/// One file of a data set, as published.
struct PublishedFile {
  std::string_view name;  ///< "102flowers.tgz"
  std::string_view url;   ///< of the server's folder, ending in a slash
  std::string_view md5;
  std::int64_t bytes = 0;
  bool is_archive =
      false;  ///< to be unpacked; other files stay in the data set's folder as they are
};

/// A data set that can be fetched, and how to check that it is complete.
struct PublishedDataset {
  std::string_view name;    ///< "flowers102": of data.flowers102
  std::string_view folder;  ///< its folder below the root: "flowers-102"
  std::string_view
      inner;  ///< the archive's own folder, whose contents end up in `folder`; may be empty
  std::span<const PublishedFile> files;
  std::string_view pictures;                 ///< the folder of its images
  std::int64_t images = 0;                   ///< regular files in it, at any depth
  std::span<const std::string_view> needed;  ///< further files
  UnpackLimits limits;
};

/// All known data sets, sorted by name.
std::span<const PublishedDataset> published_datasets();
/// Null if there is none of that name.
const PublishedDataset* find_published(std::string_view name);

/// Does `folder` hold all of it? Checks only names and their number.
bool is_whole(const PublishedDataset& dataset, const std::filesystem::path& folder);

struct DatasetWish {
  std::filesystem::path root;  ///< the data set ends up in root/<its folder>
  std::vector<std::filesystem::path> files =
      {};                ///< local copies that need not be fetched; identified by their checksums
  std::string url = {};  ///< of a folder on another server; empty: where it is published
};

struct FetchedDataset {
  std::filesystem::path folder;
  bool was_there = false;
  std::int64_t received = 0;  ///< bytes downloaded
  std::int64_t files = 0;     ///< number of files in the data set
};

/// Fetches a data set, checks and unpacks it. Its folder appears when it is whole, or not at all;
/// until then the partial data is in <root>/.<folder>.fetch, where the next call continues. An
/// existing data set is not touched. Throws runner::StageError: what download() and unpack() do,
/// kFolderExists if something else has its name; and runner::Cancelled.
FetchedDataset fetch_published(const PublishedDataset& dataset, const DatasetWish& wish,
                               const FetchCallbacks& callbacks, const Patience& patience = {},
                               runner::Storage& storage = runner::disk());

/// Is the data set `name`, one of published_datasets(), in `root` or in its folder below? One that
/// has the data set's annotation files next to its images is accepted, even if it is incomplete:
/// its reader checks it.
bool has_dataset(std::string_view name, const std::filesystem::path& root);

/// For a data stage with `download: true`: fetches the data set if it is missing (has_dataset).
void fetch_dataset(std::string_view name, const std::filesystem::path& root,
                   const FetchCallbacks& callbacks);

}  // namespace stages
