// OpenDuck from Node: DuckDB's own package, with the extension. Start a server first: make run
//
// usage: NODE_PATH=.deps/node_modules node examples/client_node.js     (elsewhere: npm install @duckdb/node-api@1.5.5-r.5)
// environment: OPENDUCK_ENDPOINT, OPENDUCK_TOKEN, PRESET
'use strict';

const path = require('node:path');
const { DuckDBInstance } = require('@duckdb/node-api');

const build = path.join(__dirname, '..', 'build', process.env.PRESET || 'release');

async function main() {
  // The extension bears no signature of DuckDB's makers.
  const instance = await DuckDBInstance.create(':memory:', { allow_unsigned_extensions: 'true' });
  const con = await instance.connect();
  const rows = async (sql, values) => (await con.runAndReadAll(sql, values)).getRowObjectsJS();

  await con.run(`LOAD '${path.join(build, 'ext', 'openduck.duckdb_extension').replaceAll("'", "''")}'`);
  await con.run("ATTACH 'openduck:flights' AS cloud");

  console.log('tables:', (await rows('SHOW TABLES FROM cloud')).map((row) => row.name).join(' '));

  // A filter and a projection run at the server; values travel beside the text.
  console.log('most delayed:', await rows('SELECT flight, dest FROM cloud.flights WHERE dep_delay > $1', [1300]));

  // Rows of this process and a remote table in one statement.
  await con.run('CREATE TABLE watched(dest VARCHAR, city VARCHAR)');
  const appender = await con.createAppender('watched');
  for (const [dest, city] of [['SEA', 'Seattle'], ['HNL', 'Honolulu']]) {
    appender.appendVarchar(dest);
    appender.appendVarchar(city);
    appender.endRow();
  }
  appender.closeSync();
  const joined = await rows(
    'SELECT city, count(*) AS flights FROM cloud.flights JOIN watched USING (dest) GROUP BY city ORDER BY city'
  );
  for (const { city, flights } of joined) console.log(`${city}: ${flights} flights`);

  // They go up as a stream of rows.
  await con.run('CREATE OR REPLACE TABLE cloud.seen(dest VARCHAR PRIMARY KEY, city VARCHAR)');
  const added = await con.run('INSERT INTO cloud.seen FROM watched');
  console.log('added:', added.rowsChanged);

  // Errors are those that the same statement has on a local table.
  try {
    await con.run("INSERT INTO cloud.seen VALUES ('SEA', 'again')");
  } catch (error) {
    console.log('refused:', error.message.split(':')[0]);
  }
  try {
    await con.run('FROM cloud.nothere');
  } catch (error) {
    console.log('refused:', error.message.split('\n')[0]);
  }

  // A large result comes in pieces: the first is here before the last is read.
  let pieces = 0;
  let read = 0;
  for await (const some of (await con.stream('SELECT distance FROM cloud.flights')).yieldRows()) {
    pieces += 1;
    read += some.length;
  }
  console.log(`read ${read} rows in ${pieces > 1 ? 'pieces' : 'one piece'}`);

  await con.run('DROP TABLE cloud.seen');
  con.closeSync();
  instance.closeSync();
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
