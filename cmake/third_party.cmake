# Targets for the parts that scripts/deps.sh brought into .deps/. Built without our warnings and
# without UBSan, position independent, with hidden symbols; seen by their users as system headers.
set(OD_DEPS "${CMAKE_SOURCE_DIR}/.deps" CACHE PATH "where scripts/deps.sh put its files")
if(NOT EXISTS "${OD_DEPS}/duckdb/lib/libduckdb.so")
    message(FATAL_ERROR "run scripts/deps.sh first: ${OD_DEPS} lacks libduckdb.so")
endif()

# The one place that names DuckDB's version is deps.lock.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/deps.lock")
file(STRINGS "${CMAKE_SOURCE_DIR}/deps.lock" line REGEX "^duckdb +[0-9.]+$")
string(REGEX REPLACE "^duckdb +" "" OD_DUCKDB_VERSION "${line}")

find_package(Threads REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
# OpenSSL, for query/rpc. Programs take the system's, which gets the system's updates. What is loaded into a foreign process (target
# property OD_OWN_OPENSSL) has one of its own inside, with hidden symbols: docs/decisions/0007-tls.md.
add_library(od_openssl INTERFACE)
target_include_directories(od_openssl SYSTEM INTERFACE "${OPENSSL_INCLUDE_DIR}")
foreach(part ssl crypto)
    find_library(OPENSSL_${part}_ARCHIVE lib${part}.a REQUIRED)
    set(own "$<BOOL:$<TARGET_PROPERTY:OD_OWN_OPENSSL>>")
    string(REPLACE "ssl" "SSL" shared "${part}")
    string(REPLACE "crypto" "Crypto" shared "${shared}")
    target_link_libraries(od_openssl INTERFACE "$<${own}:${OPENSSL_${part}_ARCHIVE}>" "$<$<NOT:${own}>:OpenSSL::${shared}>")
endforeach()
find_package(PkgConfig REQUIRED)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
# Linked in where the archive is there, so that programs and the extension run on hosts without the library.
find_library(PROTOBUF_C_ARCHIVE libprotobuf-c.a HINTS ${PROTOBUF_C_LIBRARY_DIRS})
if(PROTOBUF_C_ARCHIVE)
    add_library(od_protobuf_c STATIC IMPORTED)
    set_target_properties(od_protobuf_c PROPERTIES IMPORTED_LOCATION "${PROTOBUF_C_ARCHIVE}"
        INTERFACE_INCLUDE_DIRECTORIES "${PROTOBUF_C_INCLUDE_DIRS}")
else()
    add_library(od_protobuf_c ALIAS PkgConfig::PROTOBUF_C)
endif()
# xxHash is all in its header; SQLite is linked in like protobuf-c.
pkg_check_modules(XXHASH REQUIRED libxxhash>=0.8)
add_library(od_xxhash INTERFACE)
target_include_directories(od_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIRS})
target_compile_definitions(od_xxhash INTERFACE XXH_INLINE_ALL)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
find_library(SQLITE_ARCHIVE libsqlite3.a HINTS ${SQLITE_LIBRARY_DIRS})
if(SQLITE_ARCHIVE)
    add_library(od_sqlite STATIC IMPORTED)
    set_target_properties(od_sqlite PROPERTIES IMPORTED_LOCATION "${SQLITE_ARCHIVE}"
        INTERFACE_INCLUDE_DIRECTORIES "${SQLITE_INCLUDE_DIRS}" INTERFACE_LINK_LIBRARIES "Threads::Threads;m;${CMAKE_DL_LIBS}")
else()
    add_library(od_sqlite ALIAS PkgConfig::SQLITE)
endif()
# libpq's headers only: it is loaded when metadata are in PostgreSQL (storage/meta/pq.h).
pkg_check_modules(LIBPQ REQUIRED libpq)
add_library(od_libpq_headers INTERFACE)
target_include_directories(od_libpq_headers SYSTEM INTERFACE ${LIBPQ_INCLUDE_DIRS})
pkg_check_modules(FUSE3 REQUIRED IMPORTED_TARGET fuse3>=3.12)
# libcurl's headers only, likewise (http/fetch.h).
pkg_check_modules(LIBCURL REQUIRED libcurl)
add_library(od_libcurl_headers INTERFACE)
target_include_directories(od_libcurl_headers SYSTEM INTERFACE ${LIBCURL_INCLUDE_DIRS})
# zlib and zstd, for vgi/worker: part of every system that our programs run on.
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
find_program(PROTOC_C protoc-c REQUIRED)
find_program(PROTOC protoc REQUIRED)
find_program(CCACHE ccache)
if(CCACHE)
    # Sloppiness that precompiled headers need; it does not weaken the hash of the sources.
    set(launcher "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CCACHE}")
    set(CMAKE_C_COMPILER_LAUNCHER "${launcher}")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
endif()

# od_third_party(TARGET): what every foreign library has in common.
function(od_third_party target)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden
        C_CLANG_TIDY "")
    target_compile_options(${target} PRIVATE -D_GNU_SOURCE -w)
    if(OD_SANITIZE MATCHES "undefined")
        target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
    endif()
endfunction()

# nghttp2: HTTP/2 for query/rpc.
file(GLOB nghttp2_sources "${OD_DEPS}/nghttp2/lib/*.c")
add_library(od_nghttp2 STATIC ${nghttp2_sources})
od_third_party(od_nghttp2)
target_include_directories(od_nghttp2 SYSTEM PUBLIC "${OD_DEPS}/nghttp2/include")
target_compile_definitions(od_nghttp2 PUBLIC NGHTTP2_STATICLIB
    PRIVATE HAVE_ARPA_INET_H HAVE_NETINET_IN_H HAVE_TIME_H HAVE_CLOCK_GETTIME=1)

# nanoarrow and the flatcc runtime, for arrow. nanoarrow_ipc.c is not in this library: exactly one file of
# src/arrow includes "nanoarrow_ipc.c", to reach the static functions it extends.
set(na "${OD_DEPS}/nanoarrow")
add_library(od_nanoarrow STATIC "${na}/src/nanoarrow.c"
    "${na}/flatcc/builder.c" "${na}/flatcc/emitter.c" "${na}/flatcc/verifier.c" "${na}/flatcc/refmap.c")
od_third_party(od_nanoarrow)
target_include_directories(od_nanoarrow SYSTEM PUBLIC
    "${na}/include" "${na}/include/nanoarrow" "${na}/src" "${na}/flatcc/include")

# DuckDB: duckdb_c is the C API (query/engine), duckdb_cpp adds the C++ classes (ext).
add_library(duckdb_c SHARED IMPORTED)
set_target_properties(duckdb_c PROPERTIES
    IMPORTED_LOCATION "${OD_DEPS}/duckdb/lib/libduckdb.so"
    INTERFACE_INCLUDE_DIRECTORIES "${OD_DEPS}/duckdb/include")
add_library(duckdb_cpp INTERFACE)
target_link_libraries(duckdb_cpp INTERFACE duckdb_c)
set(parts concurrentqueue fast_float fastpforlib fmt/include fsst hyperloglog jaro_winkler
    libpg_query/include mbedtls/include miniz pcg pdqsort re2 ska_sort skiplist tdigest utf8proc/include
    utf8proc vergesort yyjson/include)
list(TRANSFORM parts PREPEND "${OD_DEPS}/duckdb/third_party/")
target_include_directories(duckdb_cpp SYSTEM INTERFACE ${parts})
